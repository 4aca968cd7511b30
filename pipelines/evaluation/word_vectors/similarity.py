"""Agreement of vectors with people's similarity ratings: Spearman's rank correlation over a set of pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.inputs.kinds import PAIRS, kind_of
from dragoman.model.inputs.lines import View, open_lines
from dragoman.model.word_vectors.embeddings import Embeddings

Floats = NDArray[np.float64]
PACKED = (".gz", ".bz2", ".xz", ".lzma", ".zst", ".zip")  # suffixes of packed files; their bytes tell the format


@dataclass(frozen=True)
class SimilaritySet:
    """Pairs of words with people's similarity ratings, on any scale."""

    name: str
    pairs: list[tuple[str, str]]
    marks: Floats  # (n,)


@dataclass(frozen=True)
class SimilarityScore:
    """The result on one set."""

    spearman: float | None  # 100 x Spearman's rho over the pairs found; None for fewer than two, or equal ratings
    found: int  # pairs of which both words are known
    pairs: int

    @property
    def coverage(self) -> float:
        """Returns the pairs found, in percent."""
        return 100 * self.found / max(1, self.pairs)


def read_similarity(path: Path) -> SimilaritySet:
    """Reads a set in the common form: a pair per line, word, word, rating, separated by tabs, commas (.csv) or spaces.

    Skips blank lines, lines that begin with #, and a first line without a number (a title).
    """
    pairs: list[tuple[str, str]] = []
    marks: list[float] = []
    for number, line in lines(path):
        separator = "," if plain_name(path).suffix == ".csv" else "\t" if "\t" in line else None
        parts = [part.strip() for part in line.split(separator)]
        try:
            first, second, mark = parts[:3]
            value = float(mark)
        except ValueError:
            if number == 1:
                continue
            raise UserError(f"{path}: line {number} is not word, word, mark: {line.strip()[:60]!r}") from None
        if not (first and second and math.isfinite(value)):
            raise UserError(f"{path}: line {number} is not word, word, mark: {line.strip()[:60]!r}")
        pairs.append((first, second))
        marks.append(value)
    if not pairs:
        raise UserError(f"{path}: holds no pairs of words")
    return SimilaritySet(plain_name(path).stem, pairs, np.array(marks))


def lines(path: Path) -> list[tuple[int, str]]:
    """Returns the non-blank lines with their numbers, from 1, of a file of any kind that `model.inputs` reads."""
    try:
        if (kind := kind_of(path)) in PAIRS:
            raise UserError(f"vectors.evaluate: {path} is a {kind} file, which has sentences and no marks of words")
        with open_lines(path, View(rows="tsv")) as file:
            text = file.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "not UTF-8"
        raise UserError(f"vectors.evaluate: {path} cannot be read ({reason})") from None
    every = enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
    return [(number, line) for number, line in every if line.strip() and not line.startswith("#")]


def plain_name(path: Path) -> Path:
    """Returns the name of the text in a packed file: wordsim.csv for wordsim.csv.gz."""
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


def pair_rows(embeddings: Embeddings, pairs: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
    """Returns the rows of both words of each pair, (n, 2); -1 for an unknown word."""
    rows = [[-1 if row is None else row for row in map(embeddings.find, pair)] for pair in pairs]
    return np.array(rows, np.int64).reshape(-1, 2)


def score_similarity(embeddings: Embeddings, similarity_set: SimilaritySet) -> SimilarityScore:
    """Returns Spearman's correlation of the cosines with the ratings, over the known pairs.

    Vectors that find all pairs equally similar, like one-hot, score 0.
    """
    rows = pair_rows(embeddings, similarity_set.pairs)
    complete = (rows >= 0).all(axis=1)
    marks = similarity_set.marks[complete]
    rho = spearman(embeddings.similarities(rows[complete]), marks)
    if rho is None and len(np.unique(marks)) > 1:
        rho = 0.0
    return SimilarityScore(None if rho is None else 100 * rho, int(complete.sum()), len(rows))


def spearman(first: Floats, second: Floats) -> float | None:
    """Returns Spearman's rho of two equally long lists, equal values with their mean rank; None if undefined."""
    ranks = standard_ranks(first), standard_ranks(second)
    return float((ranks[0] * ranks[1]).mean()) if all(each.any() for each in ranks) else None


def standard_ranks(values: Floats) -> Floats:
    """Returns the ranks of (n,) values with mean 0 and deviation 1; all 0 if the values are equal."""
    from scipy.stats import rankdata

    ranks = rankdata(values) - (len(values) + 1) / 2
    deviation = ranks.std() if len(ranks) else 0.0
    standard: Floats = ranks / deviation if deviation else np.zeros(len(ranks))
    return standard
