"""What the first lines of a corpus tell before anything starts: clear mistakes are refused, doubtful ones said."""

from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.clean.sample_check import check_training_files
from dragoman.pipelines.corpus.read.built_in import everyday
from dragoman.pipelines.corpus.read.sources import Source, sources_of
from dragoman.pipelines.corpus.settings import CorpusConfig, SplitFiles

PAIRS = everyday(400)
FRENCH = [
    f"{who} {what} {where}."
    for who in ("Le garçon qui habite ici", "Notre vieille voisine", "La petite fille", "Mon frère aîné")
    for what in ("achète toujours du pain frais", "regarde souvent les oiseaux", "n'aime pas beaucoup le café")
    for where in ("dans cette rue", "avec ses amis", "pendant les vacances", "après le dîner", "chez le boulanger")
]


def sample(folder: Path, rows: list[tuple[str, str]], pair: str = "en-de", **changes: object) -> list[str]:
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    config = CorpusConfig(**{"format": "tsv", "train": SplitFiles(file=str(file)), **changes})  # type: ignore[arg-type]
    return check_training_files(config, sources_of(config, pair), pair)


def test_a_corpus_that_is_what_it_should_be_is_told_nothing(tmp_path: Path) -> None:
    assert sample(tmp_path, PAIRS) == []
    assert sample(tmp_path, [(german, english) for english, german in PAIRS], "de-en") == []


@pytest.mark.parametrize(
    ("rows", "pair", "message"),
    [
        ([pair[::-1] for pair in PAIRS], "en-de", r"the first side is German, the second English; corpus\.columns"),
        (PAIRS, "en-fr", r"the second side is German, and pair says French; pair=en-de"),
        ([(english, english) for english, _ in PAIRS], "en-de", r"400 of the first 400 pairs have two equal sides"),
        ([(english, "") for english, _ in PAIRS], "en-de", r"400 of the first 400 pairs have an empty side"),
        (
            list(zip(FRENCH, FRENCH[::-1], strict=True)),
            "en-en",
            r"first side is French, and pair says English; pair=fr-en",
        ),
    ],
)
def test_a_clear_mistake_is_refused_with_its_mend(
    tmp_path: Path, rows: list[tuple[str, str]], pair: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        sample(tmp_path, rows, pair)
    assert sample(tmp_path, rows, pair, check="off") == []


def test_what_is_doubtful_is_said(tmp_path: Path) -> None:
    half = [(english, english if place % 2 else german) for place, (english, german) in enumerate(PAIRS)]
    (doubt,) = sample(tmp_path, half)
    assert "200 of the first 400 pairs have two equal sides; cleaning drops them" in doubt


def test_a_vocabulary_that_the_corpus_cannot_fill_is_said(tmp_path: Path) -> None:
    assert sample(tmp_path, PAIRS) == []
    config = CorpusConfig(format="tsv", train=SplitFiles(file=str(tmp_path / "pairs.tsv")))
    sources = sources_of(config, "en-de")
    assert check_training_files(config, sources, "en-de", 100) == []
    (doubt,) = check_training_files(config, sources, "en-de", 8000)
    assert "tokenizer.vocabulary=8000" in doubt and "fits" in doubt


def test_few_or_short_texts_and_unknown_languages_tell_nothing(tmp_path: Path) -> None:
    swapped = [(german, english) for english, german in PAIRS]
    assert sample(tmp_path, swapped[:20]) == []
    assert sample(tmp_path, [(source[:8], target[:8]) for source, target in swapped] * 3) == []
    assert sample(tmp_path, PAIRS, "en-tlh") == []


def test_a_first_row_of_names_is_refused_and_left_out_where_a_setting_says_so(tmp_path: Path) -> None:
    rows = [("English", "German"), *PAIRS]
    with pytest.raises(UserError, match=r"names of the columns \(English, German\).*corpus\.header=true"):
        sample(tmp_path, rows)
    assert sample(tmp_path, rows, header=True) == []


def test_labels_before_their_texts_are_refused(tmp_path: Path) -> None:
    config, files = CorpusConfig(format="labelled"), (tmp_path / "text", tmp_path / "label")
    files[0].write_text("pos\nneg\n" * 100, encoding="utf-8")
    files[1].write_text("".join(f"a film of number {number}\n" for number in range(200)), encoding="utf-8")
    source = Source("train-0", "train", "moses", files, ("", ""))
    with pytest.raises(UserError, match=r"200 labels and 2 texts in 200 rows.*corpus\.columns=\[label,text\]"):
        check_training_files(config, [source], "en")
    files[1].write_text("pos\nneg\n" * 99 + "pos\nsentiment\n", encoding="utf-8")
    files[0].write_text("".join(f"a film of number {number}\n" for number in range(200)), encoding="utf-8")
    (doubt,) = check_training_files(config, [source], "en")
    assert "1 of 3 labels have one text, such as 'sentiment'" in doubt
