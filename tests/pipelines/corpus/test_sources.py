"""Names become files for a language pair, and whatever is missing is named by its key."""

from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.read.sources import sources_of
from dragoman.pipelines.corpus.settings import CorpusConfig, CutConfig, SplitFiles


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.en", "train.de", "train2.en", "train2.de", "deu.txt", "pairs.jsonl"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    return tmp_path


def _moses(folder: Path, **keys: object) -> CorpusConfig:
    files = SplitFiles(source="train.{source}", target="train.{target}")
    return CorpusConfig(**{"root": str(folder), "train": files, **keys})  # type: ignore[arg-type]


def test_placeholders_follow_the_pair(folder: Path) -> None:
    for pair in ("en-de", "de-en"):
        (source,) = sources_of(_moses(folder), pair)
        assert [path.name for path in source.files] == [f"train.{language}" for language in pair.split("-")]


def test_lists_of_files_pair_up_in_order(folder: Path) -> None:
    files = SplitFiles(source=["train.en", "train2.en"], target=["train.de", "train2.de"])
    found = sources_of(_moses(folder, train=files), "en-de")
    assert [source.name for source in found] == ["train-0", "train-1"]
    assert found[1].files[1].name == "train2.de"


def test_columns_follow_the_pair(folder: Path) -> None:
    config = CorpusConfig(
        format="tsv",
        root=str(folder),
        columns=["en", "other"],
        languages={"de": "deu"},
        train=SplitFiles(file="{other}.txt"),
    )
    assert sources_of(config, "en-de")[0].columns == ("0", "1")
    assert sources_of(config, "de-en")[0].columns == ("1", "0")


def test_json_fields_follow_the_pair(folder: Path) -> None:
    fields = {"source": "translation.{source}", "target": "translation.{target}"}
    config = CorpusConfig(format="jsonl", root=str(folder), fields=fields, train=SplitFiles(file="pairs.jsonl"))
    assert sources_of(config, "de-en")[0].columns == ("translation.de", "translation.en")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"train": SplitFiles()}, "corpus.train.source and corpus.train.target"),
        ({"format": "tsv", "train": SplitFiles()}, "corpus.train.file"),
        ({"needs_root": True, "root": None}, "corpus.root: needed"),
        ({"root": "/no/such/folder"}, "corpus.root=/no/such/folder"),
        ({"train": SplitFiles(source="train.en")}, "1 source files but 0 target files"),
        ({"train": SplitFiles(file="deu.txt")}, "corpus.train.file: a Moses pair is two files"),
        ({"train": SplitFiles(source="train.en", target="nothing.de")}, "corpus.train.target: .*nothing.de: no such"),
        ({"format": "tsv", "train": SplitFiles(source="train.en")}, "corpus.train.source: format tsv"),
        ({"format": "tsv", "train": SplitFiles(file="deu.txt"), "columns": ["en", "-"]}, "corpus.columns"),
        ({"format": "jsonl", "train": SplitFiles(file="deu.txt"), "fields": {"source": "a"}}, "corpus.fields"),
        ({"cut": CutConfig(test=0.6, valid=0.6)}, "leave nothing"),
        (
            {"cut": CutConfig(test=0.1), "test": SplitFiles(source="train2.en", target="train2.de")},
            "corpus.cut.test=0.1: the test split is given",
        ),
    ],
)
def test_mistakes_name_the_key(folder: Path, keys: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        sources_of(_moses(folder, **keys), "en-de")


@pytest.mark.parametrize("first", ["source\ttarget", "\ufeffEN\tde\r", "eng\tdeu"])
def test_a_first_line_of_names_is_no_pair(tmp_path: Path, first: str) -> None:
    path = tmp_path / "pairs.tsv"
    config = CorpusConfig(format="tsv", train=SplitFiles(file=str(path)))
    path.write_text(f"{first}\nen\tde\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"pairs\.tsv: line 1: holds the names of the columns"):
        sources_of(config, "en-de")
    path.write_text("dog\tHund\nen\tde\n", encoding="utf-8")
    assert sources_of(config, "en-de")
