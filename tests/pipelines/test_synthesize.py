"""A model's translations of shards, as a corpus for another model."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.conf import compose
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.pipelines import synthesize
from dragoman.pipelines.config import SynthesizeRoot

SIZES = ("small", "big", "old")
ENGLISH = [f"The {size} dog number {i} sleeps." for i in range(10) for size in SIZES]
GERMAN = [f"Der {size} Hund Nummer {i} schläft." for i in range(10) for size in SIZES]


class Reader:
    """Stands for a translator: upper case, except for what it cannot do."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def translate(self, texts: list[str], on_error: str = "raise") -> list[Translation]:
        self.read += texts
        return [self.one(text) for text in texts]

    def one(self, text: str) -> Translation:
        if "number 3" in text:
            return Translation("", 0.0, error="RuntimeError: broken")
        score = -2.0 if "big" in text else -1.0
        return Translation(
            text.upper(), score, [Alternative(text.upper(), score, 4 * score, (1, 2, 3, 4))], loops="4" in text
        )


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    from dragoman.model.shards.manifest import Manifest, Split, write_manifest
    from dragoman.model.shards.writer import write_shard
    from dragoman.model.text.tokenizer import TokenizerConfig
    from dragoman.model.text.tokenizers import train_pair

    folder = tmp_path / "shards"
    folder.mkdir()
    pair = train_pair(TokenizerConfig(vocabulary=120), ENGLISH, GERMAN)
    pair.save(folder)
    records = list(zip(pair.source.encode(ENGLISH), pair.target.encode(GERMAN), strict=True))
    entries = [write_shard(folder, "train", i, records[i * 20 : i * 20 + 20], i * 20, 8, "<u2") for i in range(2)]
    write_manifest(folder, Manifest("toy", ["en", "de"], pair.describe(), "<u2", {"train": Split.of(entries)}))
    return folder


@pytest.fixture
def reader(shards: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A translator of English in the place of a trained one."""
    one = Reader()
    bundle = SimpleNamespace(languages=("en", "de"), pair="en-de", digest="d" * 64, directory=shards.parent / "teacher")
    monkeypatch.setattr(synthesize, "_open", lambda *_: bundle)
    monkeypatch.setattr(synthesize, "open_translator", lambda *_: one)
    return one


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main(words: list[str]) -> int:
    return compose.run(synthesize.task, SynthesizeRoot, words, "synthesize")


def run(shards: Path, out: Path, *words: str) -> int:
    return main([f"paths.shards={shards}", "bundle=teacher", f"output={out}", *words])


def test_each_text_stands_beside_its_translation(shards: Path, tmp_path: Path, reader: Reader) -> None:
    assert run(shards, tmp_path / "out") == 0
    good = [text for text in ENGLISH if "number 3" not in text and "number 4" not in text]
    assert rows(tmp_path / "out" / "pairs.jsonl") == [{"en": text, "de": text.upper()} for text in good]
    own = rows(tmp_path / "out" / "train.jsonl")
    assert [row["en"] for row in own] == ENGLISH and all(row["de"] for row in own)
    dropped = rows(tmp_path / "out" / "dropped.jsonl")
    assert [row["reason"] for row in dropped] == ["failed"] * 3 + ["a loop"] * 3
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert (record["records"], record["kept"]) == (30, 24)
    assert record["dropped"] == {"failed": 3, "a loop": 3}
    assert not (tmp_path / "out" / "parts").exists()


def test_the_best_share_is_kept_in_the_order_of_the_shards(shards: Path, tmp_path: Path, reader: Reader) -> None:
    assert run(shards, tmp_path / "out", "synthesize.keep=0.75") == 0
    kept = [row["en"] for row in rows(tmp_path / "out" / "pairs.jsonl")]
    assert len(kept) == 18
    assert kept == sorted(kept, key=ENGLISH.index)
    assert sum("big" in text for text in kept) == 2  # the worst are gone, of equal ones the later
    assert kept[1] == "The big dog number 0 sleeps."


def test_a_scorer_of_the_opposite_direction_reads_the_translation(
    shards: Path, tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    class Scorer:
        def score(self, sources: list[str], targets: list[str], too_long: str) -> list[Any]:
            asked.extend(zip(sources, targets, strict=True))
            return [SimpleNamespace(mean=-float(len(asked))) for _ in sources]

    bundles = {
        "teacher": SimpleNamespace(
            languages=("en", "de"), pair="en-de", digest="d" * 64, directory=tmp_path / "teacher"
        ),
        "back": SimpleNamespace(languages=("de", "en"), pair="de-en", digest="e" * 64, directory=tmp_path / "back"),
        "other": SimpleNamespace(
            languages=("fr", "en"), pair="fr-en", digest="f" * 64, directory=tmp_path / "other-bundle"
        ),
    }
    monkeypatch.setattr(synthesize, "_open", lambda _, wanted, key: bundles[wanted])
    monkeypatch.setattr(synthesize, "open_scorer", lambda _: Scorer())
    assert run(shards, tmp_path / "out", "synthesize.scorer=back") == 0
    assert asked[0] == (ENGLISH[0].upper(), ENGLISH[0])
    assert run(shards, tmp_path / "other", "synthesize.scorer=other") == 2


def test_a_stopped_command_goes_on_after_its_last_part(
    shards: Path, tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(shards, tmp_path / "whole", "synthesize.part=7") == 0
    reader.read.clear()
    whole, calls = reader.translate, 0

    def killed(texts: list[str], on_error: str = "raise") -> list[Translation]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return whole(texts)

    monkeypatch.setattr(reader, "translate", killed)
    run(shards, tmp_path / "out", "synthesize.part=7")
    assert not (tmp_path / "out" / "pairs.jsonl").exists()
    assert run(shards, tmp_path / "out", "synthesize.part=7") == 0
    assert reader.read == ENGLISH  # none twice
    for name in ("pairs.jsonl", "dropped.jsonl", "record.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_same_again_does_nothing_and_another_is_refused(
    shards: Path, tmp_path: Path, reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(shards, out) == 0
    reader.read.clear()
    assert run(shards, out) == 0
    assert reader.read == []
    assert run(shards, out, "synthesize.keep=0.5") == 2
    assert "holds other pairs; name another folder" in capsys.readouterr().err
    lines = (out / "pairs.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (out / "pairs.jsonl").write_text("".join(lines[1:]), encoding="utf-8")
    assert run(shards, out) == 2
    assert "its pairs were changed" in capsys.readouterr().err


def test_a_folder_with_other_files_is_left_alone(shards: Path, tmp_path: Path, reader: Reader) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pairs.jsonl").write_text("mine")
    assert run(shards, tmp_path / "out") == 2
    assert (tmp_path / "out" / "pairs.jsonl").read_text() == "mine"


def test_shards_of_other_languages_are_refused(
    shards: Path, tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = SimpleNamespace(languages=("fr", "de"), pair="fr-de", digest="d" * 64)
    monkeypatch.setattr(synthesize, "_open", lambda *_: bundle)
    assert run(shards, tmp_path / "out") == 2
    assert "translates fr-de, the shards in" in capsys.readouterr().err


def test_what_is_missing_is_named(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"paths.shards={shards}", "output=x"]) == 2
    assert main([f"paths.shards={shards}", "bundle=x"]) == 2
    said = capsys.readouterr().err
    assert "bundle=RUN is needed" in said
    assert "output=FOLDER is needed" in said
