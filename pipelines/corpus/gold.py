"""Gold word alignments of held-out pairs, from the phrasebook's grammar.

The shards keep only texts. The grammar runs again from the shards' seed until every pair has appeared, so nothing must
be stored beside the shards, and shards of any age have gold alignments.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dragoman.model.alignment.spans import Span
from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest
from dragoman.pipelines.corpus.phrasebook.generate import distinct_pairs
from dragoman.pipelines.corpus.phrasebook.words import TOKEN
from dragoman.pipelines.corpus.read.built_in import LANGUAGES
from dragoman.pipelines.corpus.read.identity import generator_hash

Links = frozenset[tuple[int, int]]  # (source, target) words, counted from 0 over `gold_words`
TRIES = 20  # most generated pairs per pair of the corpus before a held-out one counts as missing


def gold_words(text: str) -> list[Span]:
    """Returns the positions of the words of a gold alignment: words, the possessive 's, and each punctuation mark."""
    return [found.span() for found in TOKEN.finditer(text)]


def gold_alignments(
    manifest: Manifest, shards: Path, splits: Mapping[str, tuple[Sequence[str], Sequence[str]]], source: str
) -> dict[str, list[Links]]:
    """Returns the alignment of every pair of each split, given as sources and targets; `source`: the source's language.

    Raises:
        UserError: the corpus is not the phrasebook, has another version of its grammar, or has a pair that it does not
            generate; names the shard directory.
    """
    corpus = dict(manifest.config.get("corpus") or {})
    if corpus.get("format") != "phrasebook":
        raise UserError(
            f"evaluate.alignment: {shards} holds {manifest.corpus}, which has no gold alignment; corpus=phrasebook "
            f"is the one that has"
        )
    if manifest.config.get("files") != [{"generator": generator_hash()}]:
        raise UserError(
            f"evaluate.alignment: {shards} was made by another version of the phrasebook's grammar, so its gold "
            f"alignment cannot be made again; shard the corpus again"
        )
    turned = source != LANGUAGES[0]
    wanted: dict[tuple[str, str], Links | None] = {
        ((target, text) if turned else (text, target)): None
        for sources, targets in splits.values()
        for text, target in zip(sources, targets, strict=True)
    }
    most = TRIES * (int(corpus["pairs"]) + len(wanted))
    for english, german, links in generate_pairs(manifest.seed, most, wanted):
        wanted[english, german] = frozenset((j, i) for i, j in links) if turned else links
    missing = [pair for pair, links in wanted.items() if links is None]
    if missing:
        raise UserError(
            f"evaluate.alignment: {shards}: {len(missing)} held-out pairs are not the phrasebook's, "
            f"such as {missing[0][0]!r}"
        )
    pairs = {
        split: [(target, text) if turned else (text, target) for text, target in zip(*sides, strict=True)]
        for split, sides in splits.items()
    }
    return {split: [wanted[pair] or frozenset() for pair in every] for split, every in pairs.items()}


def generate_pairs(seed: int, most: int, wanted: Mapping[tuple[str, str], object]) -> Iterator[tuple[str, str, Links]]:
    """Yields the `wanted` pairs among the grammar's first `most`, with their links (English, German)."""
    left = len(wanted)
    for number, pair in enumerate(distinct_pairs(seed)):
        if not left or number == most:
            return
        if (pair.english, pair.german) in wanted:
            left -= 1
            yield pair.english, pair.german, frozenset(pair.alignment)
