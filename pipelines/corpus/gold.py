"""Gold word alignments of held-out pairs: those that the phrasebook has beside its pairs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.model.alignment.spans import Span
from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest
from dragoman.pipelines.corpus.read.built_in import LANGUAGES, TOKEN, phrasebook

Links = frozenset[tuple[int, int]]  # (source, target) words, counted from 0 over `gold_words`


def gold_words(text: str) -> list[Span]:
    """Returns the positions of the words of a gold alignment: words, the possessive 's, and each punctuation mark."""
    return [match.span() for match in TOKEN.finditer(text)]


def gold_alignments(
    manifest: Manifest, shards: Path, splits: Mapping[str, tuple[Sequence[str], Sequence[str]]], source: str
) -> dict[str, list[Links]]:
    """Returns the alignment of every pair of each split, given as sources and targets; `source`: the source's language.

    Raises UserError: the corpus is not the phrasebook, or has a pair that the package's phrasebook has not; names the
    shard directory.
    """
    corpus = dict(manifest.config.get("corpus") or {})
    if corpus.get("format") != "phrasebook":
        raise UserError(
            f"evaluate.alignment: {shards} holds {manifest.corpus}, which has no gold alignment; corpus=phrasebook "
            f"is the one that has"
        )
    turned = source != LANGUAGES[0]
    links = {
        (row.german, row.english) if turned else (row.english, row.german): row.alignment
        for rows in phrasebook().values()
        for row in rows
    }
    pairs = {split: list(zip(*sides, strict=True)) for split, sides in splits.items()}
    missing = [pair for rows in pairs.values() for pair in rows if pair not in links]
    if missing:
        raise UserError(
            f"evaluate.alignment: {shards}: {len(missing)} held-out pairs are not the phrasebook's, such as "
            f"{missing[0][0]!r}; shards of before version 0.3.0 have others: shard the corpus again"
        )
    return {
        split: [frozenset((j, i) if turned else (i, j) for i, j in links[pair]) for pair in rows]
        for split, rows in pairs.items()
    }
