"""The corpus of the package: its file, and what is refused."""

import hashlib
import re

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.read.built_in import FOLDER, check_built_in, everyday
from dragoman.pipelines.corpus.settings import CorpusConfig, SplitFiles


def test_the_files_are_those_that_their_page_tells() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+\.xz) \|.*\| (\d+) \| (\w{64}) \|$", page, re.MULTILINE)
    assert {name for name, _, _ in rows} == {path.name for path in FOLDER.glob("*.xz")}
    for name, _, digest in rows:
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
        assert (FOLDER / name).stat().st_size < 1_100_000
    lines = {name: int(count) for name, count, _ in rows}
    assert lines["everyday.tsv.xz"] == len(everyday())
    assert "CC BY 2.0" in page and "tatoeba.org" in page and "manythings.org" in page


def test_a_part_of_everyday_is_a_sample_of_short_and_long_sentences() -> None:
    whole, part = everyday(), everyday(3000)
    assert len(part) == 3000 and set(part) <= set(whole)
    mean, sample = (sum(len(english) for english, _ in rows) / len(rows) for rows in (whole, part))
    assert abs(mean - sample) < 1
    assert everyday(1000) == part[:1000]


@pytest.mark.parametrize(
    ("changes", "pair", "message"),
    [
        ({"pairs": 91_383}, "de-en", r"91,382 training pairs; choices: 1 to 91382, or 0 for all"),
        ({}, "en-fr", r"pair=en-fr: corpus=everyday has English and German only"),
        ({"train": SplitFiles(file="a.tsv")}, "en-de", r"file=a\.tsv: the built-in corpus reads no files"),
    ],
)
def test_what_it_has_not_is_refused(changes: dict[str, object], pair: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_built_in(CorpusConfig(**{"name": "x", "format": "everyday", **changes}), pair)  # type: ignore[arg-type]
