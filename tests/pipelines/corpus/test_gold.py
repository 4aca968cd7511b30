"""Gold alignments of held-out pairs of the phrasebook."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest
from dragoman.pipelines.corpus.gold import gold_alignments, gold_words
from dragoman.pipelines.corpus.read.built_in import phrasebook, tokens

HERE = Path("shards")
MANIFEST = Manifest("phrasebook", ["en", "de"], {}, "<u2", {}, seed=5, config={"corpus": {"format": "phrasebook"}})


def test_every_held_out_pair_has_the_alignment_of_the_phrasebook() -> None:
    rows = phrasebook(400)["test"]
    assert len(rows) == 40
    english, german = [row.english for row in rows], [row.german for row in rows]
    found = gold_alignments(MANIFEST, HERE, {"test": (english, german)}, "en")["test"]
    for row, links in zip(rows, found, strict=True):
        assert links == frozenset(row.alignment)
        assert {i for i, _ in links} <= set(range(len(tokens(row.english))))
        assert {j for _, j in links} <= set(range(len(tokens(row.german))))
    turned = gold_alignments(MANIFEST, HERE, {"test": (german, english)}, "de")["test"]
    assert [{(j, i) for i, j in links} for links in turned] == [set(links) for links in found]


def test_words_are_those_that_the_alignment_counts() -> None:
    text = "Martin's well-known dog sleeps at six o'clock, doesn't it?"
    assert [text[begin:end] for begin, end in gold_words(text)] == tokens(text)


def test_other_corpora_and_other_pairs_are_refused() -> None:
    texts = {"test": (["The dog flies to the moon."], ["Nein."])}
    with pytest.raises(UserError, match=r"evaluate\.alignment: shards holds multi30k, which has no gold alignment"):
        other = replace(MANIFEST, corpus="multi30k", config={"corpus": {"format": "moses"}})
        gold_alignments(other, HERE, texts, "en")
    with pytest.raises(UserError, match=r"1 held-out pairs are not the phrasebook's, such as 'The dog flies"):
        gold_alignments(MANIFEST, HERE, texts, "en")
