"""`near_duplicate`: training pairs that nearly repeat another one; the best-scored stays, without scores the first.

A pair nearly repeats another when

- case, punctuation and blanks alone differ, on both sides, and no full stop is another mark there: a call or a question
  is another sentence;
- one side is the same in this sense, and the other is one letter apart by a word that the corpus hardly has and that is
  no contraction: the pair with that word goes, if neither has a better score;
- both sides have `LONG` words or more, are `ALIKE` percent the same, and have the same numbers.

Candidates share a side, or a MinHash (Broder 1997) of the word trigrams of a long side. They are dealt to files by that
key, and one file is in memory at a time; an exact comparison follows. Word counts stand in a table of fixed size.
"""

import shutil
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

LONG = 10  # words
ALIKE = 97.0  # percent of letters
HASHES = 4  # MinHashes of a long side: sides with 7 in 10 trigrams in common share one with 99 in 100
COMPARED = 64  # kept pairs of a key that a pair is compared with, the last ones
RARER = 100  # how much rarer than its counterpart a misspelt word is, where it occurs more than once
TABLE = 1 << 24  # entries of the table of counts, 4 bytes each
FILE_PAIRS = 1 << 17  # of a file, on average
MOST_FILES = 1024

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:['’][\p{L}\p{M}]+)*")
_STOP = regex.compile(r"[.!?…。！？।؟]+")
_SALTS = tuple(0x9E3779B1 * number & 0xFFFFFFFF for number in range(1, HASHES + 1))


class Entry(NamedTuple):
    """A training pair as it is compared."""

    ordinal: int  # among all clean pairs
    score: float  # of the pair, see `scores`; 0 if it was not scored
    sides: tuple[list[str], list[str]]  # words in lower case
    stops: tuple[list[str], list[str]]  # the full stops and other marks that end sentences


Pair = tuple[int, str, str, float]  # ordinal, source, target, score
Counts = npt.NDArray[np.uint32]  # (TABLE,) of words, or more where two words share an entry


def near_duplicates(pairs: Iterable[Pair], expected: int, folder: Path) -> Iterator[tuple[int, int]]:
    """Yields (ordinal of a pair to drop, ordinal of the pair that it repeats).

    Args:
        expected: about how many pairs there are.
        folder: for the files; it is made, and deleted at the end.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    counts = np.zeros(TABLE, np.uint32)
    files = min(MOST_FILES, 1 + expected // FILE_PAIRS)
    _deal(pairs, counts, files, folder)
    dropped: set[int] = set()
    for number in range(files):
        path = folder / f"{number:04d}"
        for group in _groups(path) if path.exists() else ():
            for gone, kept in _compare(group, counts, dropped):
                dropped.add(gone)
                yield gone, kept
    shutil.rmtree(folder)


def words_of(text: str) -> list[str]:
    """Returns the words and numbers of a text in lower case."""
    words: list[str] = _WORD.findall(text.casefold().replace("’", "'"))
    return words


def repeats(first: Entry, other: Entry, counts: Counts) -> int | None:
    """Returns the ordinal of the pair that goes if one nearly repeats the other, else None; `first` is the earlier."""
    letters = [["".join(side).replace("'", "") for side in entry.sides] for entry in (first, other)]
    same = [left == right for left, right in zip(*letters, strict=True)]
    if all(same) and not any(map(_exchanged, first.stops, other.stops)):
        return other.ordinal
    if sum(same) == 1:
        side = same.index(False)
        gone = _misspelt(first.sides[side], other.sides[side], letters[0][side], letters[1][side], counts)
        if gone is not None:
            return (first, other)[gone].ordinal
    if min(len(words) for entry in (first, other) for words in entry.sides) < LONG:
        return None
    from rapidfuzz import fuzz

    for (left, right), texts in zip(
        zip(first.sides, other.sides, strict=True), zip(*letters, strict=True), strict=True
    ):
        numbers = [[word for word in words if word.isdigit()] for words in (left, right)]
        if numbers[0] != numbers[1] or not fuzz.ratio(*texts, score_cutoff=ALIKE):
            return None
    return other.ordinal


def _exchanged(left: Sequence[str], right: Sequence[str]) -> bool:
    """Returns True if both have marks that the other lacks."""
    return all((Counter(left) - Counter(right), Counter(right) - Counter(left)))


def _misspelt(first: Sequence[str], other: Sequence[str], left: str, right: str, counts: Counts) -> int | None:
    """Returns which of two texts that are a letter apart is misspelt: 0, 1 or None."""
    from rapidfuzz.distance import OSA

    if OSA.distance(left, right, score_cutoff=1) > 1:
        return None
    extra = Counter(first) - Counter(other), Counter(other) - Counter(first)
    if any(words.total() != 1 or "'" in next(iter(words)) for words in extra):
        return None
    rarest = [min(int(counts[_place(word)]) for word in words) for words in extra]
    for place in (1, 0):
        if rarest[place] <= 1 or RARER * rarest[place] <= rarest[1 - place]:
            return place
    return None


def _deal(pairs: Iterable[Pair], counts: Counts, files: int, folder: Path) -> None:
    """Writes every pair into the file of each of its keys, and counts its words."""
    waiting: dict[int, list[str]] = defaultdict(list)
    held = 0
    for ordinal, source, target, score in pairs:
        sides = [words_of(source), words_of(target)]
        words, times = np.unique([_place(word) for side in sides for word in side], return_counts=True)
        counts[words.astype(np.int64)] += times.astype(np.uint32)
        stops = [" ".join(_STOP.findall(side)) for side in (source, target)]
        line = "\t".join([str(ordinal), str(score), *(" ".join(side) for side in sides), *stops])
        for key in _keys(sides):
            waiting[key % files].append(f"{key}\t{line}\n")
            held += 1
        if held >= FILE_PAIRS:
            _append(waiting, folder)
            held = 0
    _append(waiting, folder)


def _keys(sides: Sequence[Sequence[str]]) -> Iterator[int]:
    for number, side in enumerate(sides):
        letters = "".join(side).replace("'", "")
        if letters:
            yield zlib.crc32(f"{number} {letters}".encode())
        if len(side) >= LONG:
            trigrams = [" ".join(side[place : place + 3]).encode() for place in range(len(side) - 2)]
            for salt in _SALTS:
                yield min(zlib.crc32(trigram, salt) for trigram in trigrams) ^ salt


def _append(waiting: dict[int, list[str]], folder: Path) -> None:
    for number, lines in waiting.items():
        with (folder / f"{number:04d}").open("a", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
    waiting.clear()


def _groups(path: Path) -> Iterator[list[Entry]]:
    """Yields the pairs of a file that share a key, in the corpus' order."""
    groups: dict[str, list[str]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            key, _, rest = line.rstrip("\n").partition("\t")
            groups[key].append(rest)
    for lines in groups.values():
        if len(lines) > 1:
            group = []
            for line in lines:
                ordinal, score, *texts = line.split("\t")
                source, target, *stops = (text.split() for text in texts)
                group.append(Entry(int(ordinal), float(score), (source, target), (stops[0], stops[1])))
            yield sorted(group, key=lambda entry: entry.ordinal)


def _compare(group: Sequence[Entry], counts: Counts, dropped: set[int]) -> Iterator[tuple[int, int]]:
    kept = list[Entry]()
    for entry in group:
        if entry.ordinal in dropped:
            continue
        for other in kept[-COMPARED:]:
            gone = repeats(other, entry, counts) if other.ordinal != entry.ordinal else None
            if gone is not None:
                if entry.score != other.score:
                    gone = min(entry, other, key=lambda candidate: candidate.score).ordinal
                yield gone, other.ordinal if gone == entry.ordinal else entry.ordinal
                if gone == entry.ordinal:
                    break
                kept.remove(other)
        else:
            kept.append(entry)


def _place(word: str) -> int:
    return zlib.crc32(word.encode()) % TABLE
