"""Sharding a mix: its parts, their tags, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.stream import StreamReader
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig, CorpusPart, PartCleanConfig, SplitFiles
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


def test_without_parts_nothing_is_written_about_them(make: Make) -> None:
    result = shard(make("plain"))
    text = (result.directory / "manifest.json").read_text(encoding="utf-8")
    assert "part" not in {
        key for split in json.loads(text)["splits"].values() for one in split["shards"] for key in one
    }
    assert "parts" not in json.loads(text)
    assert "parts" not in json.loads(text)["config"]["corpus"]


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
        (changed(1, clean=PartCleanConfig(rules="nubmers")), r"corpus.parts\[1\].clean.rules"),
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


def cleaned(make: Make, tmp_path: Path, clean: CleanConfig, parts: dict[int, PartCleanConfig]) -> tuple[Any, Any]:
    """The manifest and the record of a mix with a bad number and a near-duplicate in the first two parts."""
    config = mix(make, tmp_path)
    for name, seed in (("clean", 1), ("bt", 4)):
        good = make_pairs(300 if name == "clean" else 700, seed)
        again = (good[9][0].upper(), good[9][1].upper())
        write_pairs(tmp_path, name, [*good, again, (f"{good[5][0]} ab{name} 12", f"{good[5][1]} ab{name} 13")])
    config.corpus = replace(config.corpus, clean=clean)
    for number, own in parts.items():
        config.corpus.parts[number].clean = own
    result = shard(config)
    return result.manifest, json.loads((result.directory / "cleaning.json").read_text(encoding="utf-8"))


def test_the_rules_of_a_mix_judge_every_part(make: Make, tmp_path: Path) -> None:
    manifest, record = cleaned(make, tmp_path, CleanConfig(rules=["numbers", "near_duplicate"]), {})
    assert manifest.dropped["train"] == {"numbers": 2, "near_duplicate": 2}
    assert record["parts"] == {
        "clean": {"kept": 300, "numbers": 1, "near_duplicate": 1},
        "bt": {"kept": 700, "numbers": 1, "near_duplicate": 1},
        "fr": {"kept": 250},
    }
    assert [part.records["train"] for part in manifest.parts] == [300, 700, 250]


def test_a_part_has_its_own_rules(make: Make, tmp_path: Path) -> None:
    own = {0: PartCleanConfig(rules="none"), 1: PartCleanConfig(rules=["numbers"])}
    manifest, record = cleaned(make, tmp_path, CleanConfig(rules=["near_duplicate"]), own)
    assert manifest.dropped["train"] == {"numbers": 1}
    assert record["parts"]["clean"] == {"kept": 302}
    assert record["parts"]["bt"] == {"kept": 701, "numbers": 1}
    assert [part.get("clean") for part in manifest.config["corpus"]["parts"]] == [
        {"rules": "none"},
        {"rules": ["numbers"]},
        None,
    ]


def test_a_near_duplicate_in_a_later_part_goes(make: Make, tmp_path: Path) -> None:
    config = mix(make, tmp_path)
    first = make_pairs(300, 1)[9]
    write_pairs(tmp_path, "bt", [*make_pairs(700, 4), (first[0].upper(), first[1].upper())])
    write_pairs(tmp_path, "fr", [*make_pairs(250, 5), (f"{first[0]} !", f"{first[1]} !")])  # another language
    config.corpus = replace(config.corpus, clean=CleanConfig(rules=["near_duplicate"]))
    manifest = shard(config).manifest
    assert manifest.dropped["train"] == {"near_duplicate": 1}
    assert [part.records["train"] for part in manifest.parts] == [300, 700, 251]


def test_pairs_of_all_parts_are_compared_with_the_test_set(make: Make, tmp_path: Path) -> None:
    held = make_pairs(60, 3)[7]  # of the part `clean`
    dropped = []
    for name, more in (("without", []), ("with", [(f"{held[0]} there", f"{held[1]} dort")])):
        config = mix(make, tmp_path, name)
        write_pairs(tmp_path, "bt", [*make_pairs(700, 4), *more])
        config.corpus = replace(config.corpus, near_words="drop")
        result = shard(config)
        dropped.append((result.manifest.dropped["train"]["leaked_words"], result.manifest.parts[1].records["train"]))
    assert dropped[1] == (dropped[0][0] + 1, dropped[0][1])
