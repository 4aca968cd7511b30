"""A corpus may lie in a container: a zip of OPUS, TMX, PO, Parquet, UTF-16; in any format of `corpus`."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.read.records import encodings_of, read_records
from dragoman.pipelines.corpus.read.sources import sources_of
from dragoman.pipelines.corpus.read.staging import blocks_of, stage, staging_tasks
from dragoman.pipelines.corpus.settings import CorpusConfig, SplitFiles

PAIRS = [(f"dog {number}", f"Hund {number}") for number in range(5)]


def units(path: Path) -> None:
    rows = "".join(
        f'<tu><tuv xml:lang="en"><seg>{a}</seg></tuv><tuv xml:lang="de"><seg>{b}</seg></tuv></tu>' for a, b in PAIRS
    )
    path.write_text(f'<?xml version="1.0"?><tmx version="1.4"><body>{rows}</body></tmx>', encoding="utf-8")


def table(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"en": [a for a, _ in PAIRS], "de": [b for _, b in PAIRS]}), path)


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for side, language in enumerate(("en", "de")):
            file.writestr(f"Books.de-en.{language}", "".join(f"{pair[side]}\n" for pair in PAIRS))


def rows(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("rows.tsv", "".join(f"{a}\t{b}\n" for a, b in PAIRS))


def wide(path: Path) -> None:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-16")


def catalogue(path: Path) -> None:
    messages = "".join(f'\nmsgid "{a}"\nmsgstr "{b}"\n' for a, b in PAIRS)
    path.write_text(f'msgid ""\nmsgstr ""\n"Language: de\\n"\n{messages}', encoding="utf-8")


def pairs_of(config: CorpusConfig, folder: Path, pair: str = "en-de") -> list[tuple[str, str]]:
    sources = sources_of(config, pair)
    for task in staging_tasks(sources, folder):
        stage(task)
    found = [read_records(block, "raise", encodings_of(config)) for block in blocks_of(sources, folder)]
    return [one for records in found for one in zip(records.source, records.target, strict=True)]


@pytest.mark.parametrize(
    ("make", "form"),
    [
        (units, "tsv"),
        (units, "jsonl"),
        (table, "jsonl"),
        (table, "tsv"),
        (rows, "tsv"),
        (wide, "tsv"),
        (catalogue, "tsv"),
    ],
)
def test_one_file_of_pairs(tmp_path: Path, make: Callable[[Path], None], form: Any) -> None:
    make(tmp_path / "file")
    config = CorpusConfig(format=form, train=SplitFiles(file=str(tmp_path / "file")))
    assert pairs_of(config, tmp_path) == PAIRS


@pytest.mark.parametrize("make", [units, table, archive, catalogue])
def test_both_sides_of_a_moses_corpus_in_one_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "file")
    name = str(tmp_path / "file")
    assert pairs_of(CorpusConfig(train=SplitFiles(source=name, target=name)), tmp_path) == PAIRS
    reverse = tmp_path / "reverse"
    reverse.mkdir()
    swapped = pairs_of(CorpusConfig(train=SplitFiles(source=name, target=name)), reverse, "de-en")
    assert swapped == [(b, a) for a, b in PAIRS]


@pytest.mark.parametrize("damage", ["\x00", "&#x1F;", "\udcff"])
@pytest.mark.parametrize("form", ["jsonl", "moses"])
def test_a_forbidden_character_refuses_its_unit_alone(tmp_path: Path, form: Any, damage: str) -> None:
    units(tmp_path / "file")
    text = (tmp_path / "file").read_text(encoding="utf-8").replace(PAIRS[1][1], f"ka{damage}putt")
    (tmp_path / "file").write_bytes(text.encode("utf-8", "surrogateescape"))
    name = str(tmp_path / "file")
    files = SplitFiles(source=name, target=name) if form == "moses" else SplitFiles(file=name)
    config = CorpusConfig(format=form, train=files)
    with pytest.raises(UserError, match=r"line 2.*corpus.on_error=skip"):
        pairs_of(config, tmp_path)
    (block,) = blocks_of(sources_of(config, "en-de"), tmp_path)
    records = read_records(block, "skip", encodings_of(config))
    assert records.bad == {1: "invalid_utf8"}
    pairs = zip(records.source, records.target, strict=True)
    assert [pair for number, pair in enumerate(pairs) if number != 1] == [PAIRS[0], *PAIRS[2:]]


def test_two_targets_of_a_unit_are_two_pairs(tmp_path: Path) -> None:
    units(tmp_path / "file")
    more = f'{PAIRS[0][1]}</seg></tuv><tuv xml:lang="de"><seg>anders'
    text = (tmp_path / "file").read_text(encoding="utf-8").replace(PAIRS[0][1], more)
    (tmp_path / "file").write_text(text, encoding="utf-8")
    found = pairs_of(CorpusConfig(format="jsonl", train=SplitFiles(file=str(tmp_path / "file"))), tmp_path)
    assert found == [PAIRS[0], (PAIRS[0][0], "anders"), *PAIRS[1:]]


@pytest.mark.parametrize("form", ["tsv", "jsonl", "moses"])
def test_the_fields_of_the_advice_name_a_tables_columns_in_every_format(tmp_path: Path, form: Any) -> None:
    path = tmp_path / "file"
    rows = [{"t": {"from": a, "to": b}} for a, b in PAIRS]
    pyarrow.parquet.write_table(pyarrow.table({"data": rows}), path)
    name = str(path)
    files = SplitFiles(source=name, target=name) if form == "moses" else SplitFiles(file=name)
    with pytest.raises(UserError, match=r"has no column for en; columns: data \(corpus\.fields="):
        pairs_of(CorpusConfig(format=form, train=files), tmp_path)
    fields = {"source": "data.t.from", "target": "data.t.to"}
    assert pairs_of(CorpusConfig(format=form, train=files, fields=fields), tmp_path) == PAIRS


def test_patterns_name_files_of_every_format(tmp_path: Path) -> None:
    for number, (a, b) in enumerate(PAIRS):
        (tmp_path / f"{number}.en").write_text(f"{a}\n")
        (tmp_path / f"{number}.de").write_text(f"{b}\n")
        (tmp_path / f"{number}.jsonl").write_text(json.dumps({"en": a, "de": b}) + "\n")
    for name in ("moses", "jsonl"):
        (tmp_path / name).mkdir()
    moses = CorpusConfig(root=str(tmp_path), train=SplitFiles(source="*.{source}", target="*.{target}"))
    assert pairs_of(moses, tmp_path / "moses") == PAIRS
    lines = CorpusConfig(root=str(tmp_path), format="jsonl", train=SplitFiles(file="*.jsonl"))
    assert pairs_of(lines, tmp_path / "jsonl") == PAIRS


def test_a_document_is_named_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"%PDF-1.7")
    with pytest.raises(UserError, match=r"a\.tsv: is a PDF document"):
        sources_of(CorpusConfig(format="tsv", train=SplitFiles(file=str(tmp_path / "a.tsv"))), "en-de")
