"""Sharding a mix: its parts, their tags, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.stream import StreamReader
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig, CorpusPart, SplitFiles
from dragoman.pipelines.shard import shard
from tests.pipelines.conftest import Make, make_pairs, split_texts, write_pairs

pytestmark = pytest.mark.usefixtures("small_blocks")
BPE = TokenizerConfig(vocabulary=200)


def mix(make: Make, tmp_path: Path, name: str = "mix", **keys: Any) -> Config:
    """Clean German pairs with held-out sets, back-translated ones without, and French ones."""
    files = {
        "clean": write_pairs(tmp_path, "clean", make_pairs(300, 1)),
        "bt": write_pairs(tmp_path, "bt", make_pairs(700, 4)),
        "fr": write_pairs(tmp_path, "fr", make_pairs(250, 5)),
    }
    valid, test = (write_pairs(tmp_path, split, make_pairs(60, seed)) for split, seed in (("valid", 2), ("test", 3)))
    french = write_pairs(tmp_path, "fr-valid", make_pairs(40, 6))
    parts = [
        CorpusPart("clean", "en-de", ["<2de>"], train=files["clean"], valid=valid, test=test),
        CorpusPart("bt", "en-de", ["<2de>", "<bt>"], train=files["bt"]),
        CorpusPart("fr", "en-fr", ["<2fr>"], train=files["fr"], valid=french),
    ]
    values: dict[str, Any] = {"corpus": CorpusConfig(name="mix", parts=parts), "pair": "en-mul", "tokenizer": BPE}
    return make(name, **{**values, **keys})


def test_each_record_is_of_its_part_with_its_tags_and_the_same_mix_is_found(make: Make, tmp_path: Path) -> None:
    result = shard(mix(make, tmp_path))
    manifest = read_manifest(result.directory)
    assert [(part.name, part.records) for part in manifest.parts] == [
        ("clean", {"train": 300, "valid": 60, "test": 60}),
        ("bt", {"train": 700}),
        ("fr", {"train": 250, "valid": 40}),
    ]
    ranges = manifest.part_ranges("train")
    assert ranges == {"clean": range(300), "bt": range(300, 1000), "fr": range(1000, 1250)}
    reader = ShardReader(result.directory, "train")
    for part, first, records in zip(reader.chunk_parts(), reader.first_ids, reader.chunk_sizes(), strict=True):
        assert range(first, first + records)[-1] in ranges[part]
        assert first in ranges[part]
    streamed = list(StreamReader(result.directory, "train"))
    assert [chunk.first_id for chunk in streamed] == reader.first_ids
    sources = [source for source, _ in split_texts(result, "train")]
    tags = ["<2de> ", "<2de> <bt> ", "<2fr> "]
    for tag, part in zip(tags, ranges.values(), strict=True):
        assert all(sources[i].startswith(tag) and sources[i].count("<") == tag.count("<") for i in part)
    pair = load_pair(result.directory, result.manifest.tokenizer)
    assert pair.source.pieces(pair.source.encode(["<2de> <bt> the tree"])[0])[:2] == ["▁<2de>", "▁<bt>"]
    valid = (result.directory / "valid.en.txt").read_text(encoding="utf-8").splitlines()
    assert [line[:6] for line in valid] == ["<2de> "] * 60 + ["<2fr> "] * 40
    again = shard(mix(make, tmp_path))
    assert (result.found, again.found) == (False, True)
    assert result.manifest_hash == again.manifest_hash


def test_a_leak_into_another_part_is_dropped(make: Make, tmp_path: Path) -> None:
    config = mix(make, tmp_path)
    write_pairs(tmp_path, "bt", [*make_pairs(700, 4), make_pairs(60, 3)[7]])  # a test pair of the part `clean`
    manifest = shard(config).manifest
    assert manifest.dropped["train"] == {"leaked": 1}
    assert manifest.parts[1].records == {"train": 700}


def changed(part: int, **values: Any) -> Any:
    def change(config: Config) -> None:
        for key, value in values.items():
            setattr(config.corpus.parts[part], key, value)

    return change


def to_german(config: Config) -> None:
    config.pair = "en-de"


def of_words(config: Config) -> None:
    config.tokenizer = TokenizerConfig(name="words", type="words")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(1, name="clean"), "two are named clean"),
        (changed(1, name="a/b"), "corpus.parts.name"),
        (changed(1, tags=["bt"]), r"corpus.parts\[1\].tags=bt: not a tag"),
        (changed(1, tags=["<s>"]), "not a tag"),
        (changed(2, tags=[]), "fr: needs a tag.*<2fr>"),
        (changed(2, tags=["<2de>"]), "fr: the first tag <2de> is that of de, and the target language is fr"),
        (changed(1, pair="fr-de"), "bt: pair=fr-de in a mix of pair=en-mul.*on both sides there is none"),
        (changed(1, format="text"), r"corpus.parts\[1\].format"),
        (changed(0, train=SplitFiles(source="nowhere", target="nowhere")), "clean: .*nowhere: no such file"),
        (to_german, "fr: pair=en-fr in a mix of pair=en-de.*has pair=en-mul"),
        (of_words, "tokenizer=words: has no piece.* for .*<2de>"),
    ],
)
def test_a_mix_that_cannot_be_is_refused(make: Make, tmp_path: Path, change: Any, message: str) -> None:
    config = mix(make, tmp_path)
    change(config)
    with pytest.raises(UserError, match=message):
        shard(config)
    assert not (tmp_path / "mix").exists()


def test_a_tokenizer_without_the_tags_is_refused(make: Make, tmp_path: Path) -> None:
    plain = shard(make("plain", tokenizer=BPE))
    config = mix(make, tmp_path, tokenizer=TokenizerConfig(vocabulary=200, same_as=str(plain.directory)))
    with pytest.raises(UserError, match=r"tokenizer.same_as=.*no piece for <2de>, <bt>, <2fr>"):
        shard(config)


def test_a_part_that_repeats_another_is_refused(make: Make, tmp_path: Path) -> None:
    config = mix(make, tmp_path)
    write_pairs(tmp_path, "bt", make_pairs(300, 1))
    with pytest.raises(UserError, match="bt: no training pair is left"):
        shard(config)


def test_a_side_in_another_script_than_its_part_has_is_dropped(make: Make, tmp_path: Path) -> None:
    config = mix(make, tmp_path)
    write_pairs(tmp_path, "fr", [*make_pairs(250, 5), ("a line of English", "строка на русском языке")])
    config.corpus = replace(config.corpus, clean=CleanConfig(script=True))
    manifest = shard(config).manifest
    assert manifest.dropped["train"] == {"script": 1}
    assert [part.records["train"] for part in manifest.parts] == [300, 700, 250]
