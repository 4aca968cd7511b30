"""Gold alignments of held-out pairs, made again from what the manifest says."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest
from dragoman.pipelines.corpus.gold import gold_alignments, gold_words
from dragoman.pipelines.corpus.phrasebook.generate import generate
from dragoman.pipelines.corpus.phrasebook.words import tokens
from dragoman.pipelines.corpus.read.identity import generator_hash

HERE = Path("shards")


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    config = {"corpus": {"format": "phrasebook", "pairs": 40}, "files": [{"generator": generator_hash()}]}
    return Manifest("phrasebook", ["en", "de"], {}, "<u2", {}, seed=5, config=config)


def test_every_held_out_pair_has_the_alignment_that_the_grammar_wrote(manifest: Manifest) -> None:
    lines = generate(40, 5, alignments=True)
    splits = {
        split: ([line.english for line in lines[split]], [line.german for line in lines[split]])
        for split in ("valid", "test")
    }
    found = gold_alignments(manifest, HERE, splits, "en")
    for split, gold in found.items():
        written = [{tuple(map(int, link.split("-"))) for link in line.alignment.split()} for line in lines[split]]
        assert [set(links) for links in gold] == written
    turned = gold_alignments(manifest, HERE, {"test": (splits["test"][1], splits["test"][0])}, "de")
    assert [{(j, i) for i, j in links} for links in turned["test"]] == [set(links) for links in found["test"]]


def test_words_are_those_that_the_grammar_counts() -> None:
    text = "Martin's well-known dog sleeps at six o'clock, doesn't it?"
    assert [text[begin:end] for begin, end in gold_words(text)] == tokens(text)


def test_other_corpora_and_other_pairs_are_refused(manifest: Manifest) -> None:
    texts = {"test": (["The dog flies to the moon."], ["Nein."])}
    with pytest.raises(UserError, match=r"evaluate\.alignment: shards holds multi30k, which has no gold alignment"):
        gold_alignments(replace(manifest, corpus="multi30k", config={"corpus": {"format": "moses"}}), HERE, texts, "en")
    with pytest.raises(UserError, match="another version of the phrasebook's grammar"):
        old = {**manifest.config, "files": [{"generator": "ab"}]}
        gold_alignments(replace(manifest, config=old), HERE, texts, "en")
    with pytest.raises(UserError, match=r"1 held-out pairs are not the phrasebook's, such as 'The dog flies"):
        gold_alignments(manifest, HERE, texts, "en")
