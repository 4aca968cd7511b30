"""Shards back to text."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.model.shards.manifest import Manifest, Split, write_manifest
from dragoman.model.shards.writer import write_shard
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.loaders.texts import unpack_split
from dragoman.pipelines.unpack import main

ENGLISH = [f"The {size} dog number {i} sleeps." for i in range(15) for size in ("small", "big")]
GERMAN = [f"Der {size} Hund Nummer {i} schläft." for i in range(15) for size in ("kleine", "große")]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    pair = train_pair(TokenizerConfig(vocabulary=120), ENGLISH, GERMAN)
    pair.save(tmp_path)
    records = list(zip(pair.source.encode(ENGLISH), pair.target.encode(GERMAN), strict=True))
    entries = [write_shard(tmp_path, "train", i, records[i * 20 : i * 20 + 20], i * 20, 8, "<u2") for i in range(2)]
    write_manifest(tmp_path, Manifest("toy", ["en", "de"], pair.describe(), "<u2", {"train": Split.of(entries)}))
    return tmp_path


def test_the_text_comes_back(directory: Path) -> None:
    assert list(unpack_split(directory, "train")) == list(zip(ENGLISH, GERMAN, strict=True))


@pytest.mark.parametrize("first", [0, 7, 8, 20, 29, 30, 99])
def test_it_begins_where_asked(directory: Path, first: int) -> None:
    assert list(unpack_split(directory, "train", first)) == list(zip(ENGLISH, GERMAN, strict=True))[first:]


def test_standard_output_holds_both_sides(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"paths.shards={directory}", "unpack.records=2", "unpack.first=1"]) == 0
    assert capsys.readouterr().out == f"{ENGLISH[1]}\t{GERMAN[1]}\n{ENGLISH[2]}\t{GERMAN[2]}\n"


def test_a_side_alone_in_pieces(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"paths.shards={directory}", "unpack.records=1", "unpack.side=target", "unpack.form=pieces"]) == 0
    assert capsys.readouterr().out.replace(" ", "").replace("▁", " ").strip() == GERMAN[0]


def test_files_are_a_language_each(directory: Path, tmp_path: Path) -> None:
    assert main([f"paths.shards={directory}", f"output={tmp_path / 'out'}"]) == 0
    assert (tmp_path / "out" / "train.de.txt").read_text(encoding="utf-8").splitlines() == GERMAN
    assert (tmp_path / "out" / "train.en.txt").read_text(encoding="utf-8").splitlines() == ENGLISH


def test_a_file_is_whole_or_as_it_was(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "train.de.txt").write_text("before")

    def full(*_: object) -> Iterator[tuple[str, str]]:
        yield "a", "b"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dragoman.pipelines.unpack.unpack_split", full)
    assert main([f"paths.shards={directory}", f"output={out}"]) == 69
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("train.de.txt", "before")]
    assert "disk is full" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("unpack.split=trian", "'trian' is not known. Did you mean 'train'"),
        ("unpack.side=left", "unpack.side: 'left'"),
        ("output=/dev/null", "output"),
        ("paths.shards=nowhere", "no shards here"),
    ],
)
def test_mistakes_are_named(directory: Path, capsys: pytest.CaptureFixture[str], override: str, message: str) -> None:
    assert main([f"paths.shards={directory}", override]) == 2
    assert message in capsys.readouterr().err


def test_a_replaced_tokenizer_is_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = train_pair(TokenizerConfig(vocabulary=100), ENGLISH, GERMAN)
    other.save(directory)
    assert main([f"paths.shards={directory}"]) == 2
    assert "tokenizer.model" in capsys.readouterr().err
