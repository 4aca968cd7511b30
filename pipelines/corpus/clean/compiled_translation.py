"""IBM Model 1 (Brown et al. 1993, section 4.2), compiled: the probability of a word given the words of the other side.

A side is `ids` (tokens,), the token numbers of all lines, and `ends` (lines + 1,), where each line ends. Entries of a
table are sorted by `key`: (source token + 1) x vocabulary + target token, where source 0 is the empty word.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
ROUNDS = 5  # of expectation maximisation
DOUBT = 0.1  # added to the count of each source token: rare ones say less
CHANCE = 0.1  # share of a token's probability that does not depend on the other side


class Side(NamedTuple):
    """The tokens of lines."""

    ids: Ints
    ends: Ints


class Table(NamedTuple):
    """The probability of a target token given a source token, and of a target token alone."""

    keys: Ints  # (entries,) sorted
    given: Doubles  # (entries,)
    alone: Doubles  # (vocabulary,)


def fit(source: Side, target: Side, vocabulary: int) -> Table:
    """Returns the table of a sample of pairs."""
    links = np.diff(source.ends) + 1
    keys = np.empty(int((links * np.diff(target.ends)).sum()), np.int64)
    _list_links(*source, *target, vocabulary, keys)
    entries, place = np.unique(keys, return_inverse=True)
    del keys
    row = entries // vocabulary
    shares, count = np.ones(len(entries)), np.empty(len(entries))
    for _ in range(ROUNDS):
        _count(place, source.ends, target.ends, shares, count)
        shares = count / (np.bincount(row, count) + DOUBT)[row]
    seen = np.bincount(target.ids, minlength=vocabulary) + 0.5
    return Table(entries, shares, seen / seen.sum())


def gains(source: Side, target: Side, table: Table) -> Doubles:
    """Returns (lines,): the log-likelihood ratio of each target given its source, against the target alone."""
    line_gains = np.empty(len(source.ends) - 1)
    _score(*source, *target, len(table.alone), *table, line_gains)
    return line_gains


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def _list_links(source: Ints, source_ends: Ints, target: Ints, target_ends: Ints, vocabulary: int, keys: Ints) -> None:
    place = 0
    for line in range(len(source_ends) - 1):
        for j in range(target_ends[line], target_ends[line + 1]):
            keys[place] = target[j]
            place += 1
            for i in range(source_ends[line], source_ends[line + 1]):
                keys[place] = (source[i] + 1) * vocabulary + target[j]
                place += 1


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def _count(place: Any, source_ends: Ints, target_ends: Ints, shares: Doubles, count: Doubles) -> None:
    count[:] = 0.0
    first = 0
    for line in range(len(source_ends) - 1):
        links = source_ends[line + 1] - source_ends[line] + 1
        for _ in range(target_ends[line], target_ends[line + 1]):
            total = 0.0
            for k in range(first, first + links):
                total += shares[place[k]]
            for k in range(first, first + links):
                count[place[k]] += shares[place[k]] / total
            first += links


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]  # numba has no types
def _score(
    source: Ints,
    source_ends: Ints,
    target: Ints,
    target_ends: Ints,
    vocabulary: int,
    keys: Ints,
    shares: Doubles,
    alone: Doubles,
    scores: Doubles,
) -> None:
    for line in range(len(source_ends) - 1):
        links = source_ends[line + 1] - source_ends[line] + 1
        total = 0.0
        for j in range(target_ends[line], target_ends[line + 1]):
            likely = 0.0
            for i in range(source_ends[line] - 1, source_ends[line + 1]):
                row = 0 if i < source_ends[line] else source[i] + 1
                key = row * vocabulary + target[j]
                place = np.searchsorted(keys, key)
                if place < len(keys) and keys[place] == key:
                    likely += shares[place]
            total += np.log((1.0 - CHANCE) * likely / links / alone[target[j]] + CHANCE)
        scores[line] = total
