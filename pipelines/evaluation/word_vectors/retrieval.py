"""Retrieval without labels: a record's first half is the query, the second halves of all records the candidates.

The cosine of text vectors ranks the candidates; the half of the same record is correct. Halves of one record share
their subject and few of their words, so this tests what dense vectors claim to do well, for any method and language. N
records, V words.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizers import load_pair
from dragoman.model.word_vectors.counting import inverse_frequencies
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.search import Table, blocks, inverse_norms, is_sparse
from dragoman.pipelines.loaders.segments import side_number, side_of

Records = Sequence[Sequence[str]]
Weights = NDArray[np.floating[Any]]

RECORDS, SHORTEST, LONGEST = 2_000, 10, 40  # of `held_out`: their number, and their words
EQUAL = 1e-6  # cosines closer than this are equal; float32 is no finer


def rates(ranks: NDArray[np.float64]) -> dict[str, float]:
    """Returns rates in percent from the rank of each correct answer, 1 the best."""
    shares = (np.mean(ranks <= 1), np.mean(ranks <= 10), np.mean(1 / ranks))
    names = ("recall_at_1", "recall_at_10", "mean_reciprocal_rank")
    return {name: 100 * float(share) for name, share in zip(names, shares, strict=True)}


def retrieval(embeddings: Embeddings, records: Records) -> dict[str, float]:
    """Searches for the second half of every record by its first; skips records of one word.

    Returns the scores by name, such as "idf/recall_at_10", by the weighting of a text's words: "mean": all equal;
    "idf": by the queried records; "own": by the method's weights, if it has any. `coverage`: the share of the records
    whose halves both contain a known word.
    """
    halved = [(words[: len(words) // 2], words[len(words) // 2 :]) for words in records if len(words) > 1]
    firsts, seconds = [first for first, _ in halved], [second for _, second in halved]
    usable = np.array(
        [_known_rows(embeddings, first) and _known_rows(embeddings, second) for first, second in halved], bool
    )
    if usable.sum() < 2:
        raise UserError(
            f"retrieval: {int(usable.sum())} of {len(records)} records have known words in both of their halves; "
            f"at least two are needed"
        )
    scores: dict[str, float] = {}
    for name, weights in weightings(embeddings, records).items():
        queries = embeddings.text_vectors(
            [first for first, usable_row in zip(firsts, usable, strict=True) if usable_row], weights
        )
        ranks = ranks_of(queries, embeddings.text_vectors(seconds, weights), np.flatnonzero(usable))
        scores |= {f"{name}/{rate}": value for rate, value in rates(ranks).items()}
    return {**scores, "coverage": 100 * int(usable.sum()) / len(halved)}


def weightings(embeddings: Embeddings, records: Records) -> dict[str, Weights]:
    """Returns name -> (V,) weights of words in a text."""
    frequencies = np.zeros(len(embeddings), np.int64)
    for words in records:
        rows = {row for row in map(embeddings.row, words) if row is not None}
        frequencies[list(rows)] += 1
    weights_by_name: dict[str, Weights] = {
        "mean": np.ones(len(embeddings), np.float32),
        "idf": inverse_frequencies(frequencies, len(records)),
    }
    if (embeddings.weights != 1).any():
        weights_by_name["own"] = embeddings.weights
    return weights_by_name


def ranks_of(queries: Table, candidates: Table, right: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Returns (Q,) the rank of candidate `right[q]` for query q by cosine; equal ones share their mean rank.

    A vector of zeros has the cosine 0 with everything.
    """
    ours, theirs = _unit_rows(queries), _unit_rows(candidates)
    ranks = np.empty(len(right), np.float64)
    for part in blocks(len(right), 8 * theirs.shape[0]):
        product = ours[part] @ theirs.T
        cosines = np.asarray(product.toarray() if is_sparse(product) else product)
        gaps = cosines - np.take_along_axis(cosines, right[part, None], axis=1)
        equal = (np.abs(gaps) <= EQUAL).sum(axis=1)  # including the correct one
        ranks[part] = 1 + (gaps > EQUAL).sum(axis=1) + (equal - 1) / 2
    return ranks


def held_out(directory: Path, side: str | None = None) -> list[list[str]]:
    """Returns query records of a shard directory: of the test split, else of valid, else the last of train.

    At most RECORDS, the last ones with SHORTEST words or more; longer ones are cut to LONGEST words.

    Raises UserError: no shards, or two languages and no `side`.
    """
    reader = ShardReader(directory, "train")
    for split in ("test", "valid"):
        held = reader.manifest.splits.get(split)
        if held is not None and held.records:
            reader = ShardReader(directory, split)
            break
    target = side_number(reader.manifest, side) == 1
    pair = load_pair(directory, reader.manifest.tokenizer)
    tokenizer = pair.target if target else pair.source
    texts: list[list[str]] = []
    for index in reversed(range(reader.chunks)):
        ids, offsets = side_of(reader.chunk(index), target)
        for number in reversed(range(len(offsets) - 1)):
            record = ids[offsets[number] : offsets[number + 1] - 1]  # without its end token
            if len(record) >= SHORTEST:
                texts.append(tokenizer.pieces(record[:LONGEST]))
                if len(texts) == RECORDS:
                    return texts[::-1]
    return texts[::-1]


def _known_rows(embeddings: Embeddings, words: Sequence[str]) -> bool:
    return any(embeddings.row(word) is not None for word in words)


def _unit_rows(table: Table) -> Table:
    """Returns rows at length 1; zeros stay zeros."""
    inverse = inverse_norms(table)[:, None]
    return table.multiply(inverse).tocsr() if is_sparse(table) else table * inverse
