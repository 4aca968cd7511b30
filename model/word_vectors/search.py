"""Exact search in a table of vectors: cosines by one matrix product, and the best of them.

V words, d width, Q queries. A table is a dense float32 array (V, d) or a scipy CSR matrix of that shape. Rows are never
copied to normalise them: a cosine is the product times the inverse norm of the row. A row of zeros, which has no
direction, has the cosine 0 with everything.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = Any  # (V, d): NDArray[np.float32] or scipy CSR, whose types are unknown to the checker
Floats = NDArray[np.float32]
BLOCK_BYTES = 64 << 20  # memory of a search beside the table, apart from one row of V cosines
FEW, SMALL = 12, 1 << 19  # queries; multiplications that OpenBLAS does without repacking
SHORTEST = 1e-30  # shorter vectors count as zeros: their inverse length exceeds float32
EPSILON = 1e-3  # Levy and Goldberg 2014, equation 4: keeps 3CosMul from dividing by zero


def is_sparse(table: Table) -> bool:
    """Returns True for a scipy matrix, False for an array."""
    return hasattr(table, "tocsr")


def inverse_norms(table: Table) -> Floats:
    """Returns 1 / |row| of each row, (V,); 0 for a row of zeros, nan for one that holds nan or infinity."""
    norms = np.empty(table.shape[0], np.float64)
    for part in blocks(table.shape[0], 1 if is_sparse(table) else 8 * table.shape[1]):
        rows = table[part]
        if is_sparse(table):
            norms[part] = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel())
        else:
            wide = rows.astype(np.float64)
            norms[part] = np.sqrt(np.einsum("vd,vd->v", wide, wide))
    norms[~np.isfinite(norms)] = np.nan
    has_direction = ~(norms < SHORTEST)
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=has_direction).astype(np.float32)


def cosines(table: Table, inverse: Floats, queries: Table, limit: int) -> Floats:
    """Returns each query's cosines with the first `limit` rows, (Q, limit); `queries` (Q, d) of length 1 or 0."""
    if not is_sparse(queries) and 1 < len(queries) < FEW:  # BLAS takes longer to repack the table than to multiply
        product: Table = few_products(table[:limit], queries)
    else:
        product = queries @ table[:limit].T
    answer: Floats = np.asarray(product.toarray() if is_sparse(product) else product, np.float32)
    answer *= inverse[:limit]
    return answer


def few_products(table: Floats, queries: Floats) -> Floats:
    """Returns queries @ table.T, (Q, V), in pieces small enough for BLAS to skip repacking."""
    products, columns = np.empty((len(queries), len(table)), np.float32), np.ascontiguousarray(queries.T)
    size = max(1, SMALL // queries.size)
    for begin in range(0, len(table), size):
        products[:, begin : begin + size] = (table[begin : begin + size] @ columns).T
    return products


def units(table: Table, inverse: Floats, rows: NDArray[np.integer[Any]]) -> Table:
    """Returns those rows at length 1 (0 stays 0): (n, d), dense or sparse as the table."""
    picked = table[rows]
    return picked.multiply(inverse[rows, None]).tocsr() if is_sparse(picked) else picked * inverse[rows, None]


def top(scores: Floats, k: int) -> NDArray[np.intp]:
    """Returns the places of the `k` highest of (n,), highest first, the first of equals first; skips -inf."""
    there = int(np.count_nonzero(scores > -np.inf))
    k = min(k, there)
    if k <= 0:
        return np.empty(0, np.intp)
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero(scores >= least)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:k]


def three_cos_mul(a: Floats, b: Floats, c: Floats) -> Floats:
    """Returns the score of each word x for a : b = c : x, from its cosines (n,), which are shifted to [0, 1].

    Levy and Goldberg 2014, equation 4.
    """
    return (b + 1) * (c + 1) / (2 * (a + 1 + 2 * EPSILON))


def blocks(count: int, item_bytes: int) -> Iterator[slice]:
    """Yields slices of `range(count)` that hold at most BLOCK_BYTES, but at least one item."""
    size = max(1, BLOCK_BYTES // max(1, item_bytes))
    for begin in range(0, count, size):
        yield slice(begin, min(count, begin + size))
