"""Questions "a is to b as c is to ?": reads them, answers them by 3CosAdd and 3CosMul, counts by section.

Mikolov et al. 2013a (Google's questions), Mikolov et al. 2013c (MSR's), Levy and Goldberg 2014 (3CosMul).
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.search import BLOCK_BYTES, EPSILON
from dragoman.pipelines.evaluation.word_vectors.similarity import lines, plain_name

Question = tuple[str, str, str, str]  # a, b, c and the right answer
Rows = NDArray[np.int64]
SYNTACTIC = "gram"  # prefix of Google's syntactic sections
MSR_COLUMNS = ("word1", "word2", "word3", "target")


@dataclass(frozen=True)
class AnalogyScore:
    """The result of one or several sections."""

    cosadd: float  # percent correct of the questions found; 0 if there are none
    cosmul: float
    found: int  # questions whose four words are in the restricted vocabulary
    asked: int

    @property
    def coverage(self) -> float:
        """Returns the questions found, in percent."""
        return 100 * self.found / max(1, self.asked)


def read_analogies(path: Path) -> dict[str, list[Question]]:
    """Reads section -> questions, in the word2vec tool's form (`: section`, then four words per line) or MSR's .csv."""
    sections = _read_msr(path) if plain_name(path).suffix == ".csv" else _read_google(path)
    if not any(sections.values()):
        raise UserError(f"{path}: holds no questions")
    return sections


def _read_google(path: Path) -> dict[str, list[Question]]:
    sections: dict[str, list[Question]] = {}
    section = "questions"
    for number, line in lines(path):
        words = line.split()
        if words[0].startswith(":"):
            section = line.strip().lstrip(":").strip()
            sections.setdefault(section, [])
        elif len(words) == 4:
            sections.setdefault(section, []).append((words[0], words[1], words[2], words[3]))
        else:
            raise UserError(f"{path}: line {number} is no question of four words: {line.strip()[:60]!r}")
    return sections


def _read_msr(path: Path) -> dict[str, list[Question]]:
    sections: dict[str, list[Question]] = {}
    for number, row in enumerate(csv.DictReader(line for _, line in lines(path)), start=2):
        a, b, c, answer = ((row.get(column) or "").strip() for column in MSR_COLUMNS)
        if not (a and b and c and answer):
            raise UserError(f"{path}: question {number - 1} lacks one of the columns {', '.join(MSR_COLUMNS)}")
        sections.setdefault(row.get("type") or "questions", []).append((a, b, c, answer))
    return sections


def question_rows(embeddings: Embeddings, questions: Sequence[Question], restrict: int) -> Rows:
    """Returns the rows of each question's four words, (n, 4); -1 for unknown words or those beyond the restriction."""
    limit = embeddings.limit(restrict)
    rows = [
        [-1 if row is None or row >= limit else row for row in map(embeddings.find, question)] for question in questions
    ]
    return np.array(rows, np.int64).reshape(-1, 4)


def answer(embeddings: Embeddings, rows: Rows, restrict: int) -> Rows:
    """Answers a : b = c : ? for rows (n, 3) by 3CosAdd and by 3CosMul: (n, 2) rows.

    Searches the `restrict` most frequent words (0: all), without a, b and c. Computes a word's cosines once for all
    nearby questions that contain it; holds at most BLOCK_BYTES of them at a time (at least three words).
    """
    limit = embeddings.limit(restrict)
    most = max(3, BLOCK_BYTES // (2 * 4 * limit))  # words in a block, two rows of float32 each
    answers = np.empty((len(rows), 2), np.int64)
    for block in _blocks(rows, most):
        words, index = np.unique(rows[block], return_inverse=True)
        shifted = embeddings.row_cosines(words, restrict)  # (words, limit)
        shifted += 1
        inverse = 1 / (shifted + 2 * EPSILON)
        score = np.empty(limit, np.float32)
        for number, (a, b, c) in zip(range(block.start, block.stop), index.reshape(-1, 3), strict=True):
            np.subtract(shifted[b], shifted[a], out=score)
            score += shifted[c]
            answers[number, 0] = _best(score, rows[number])
            np.multiply(shifted[b], shifted[c], out=score)
            score *= inverse[a]
            answers[number, 1] = _best(score, rows[number])
    return answers


def _best(score: NDArray[np.float32], out: NDArray[Any]) -> int:
    score[out[out < len(score)]] = -np.inf
    return int(score.argmax())


def _blocks(rows: Rows, most: int) -> list[slice]:
    """Returns runs of questions with at most `most` distinct words, but at least one question."""
    blocks, begin = [], 0
    words: set[int] = set()
    for number, question in enumerate(rows.tolist()):
        words.update(question)
        if len(words) > most and number > begin:
            blocks.append(slice(begin, number))
            begin, words = number, set(question)
    return [*blocks, slice(begin, len(rows))] if len(rows) else []


def right_answers(
    embeddings: Embeddings, questions: Sequence[Question], restrict: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns which questions were found (n,), and which of those 3CosAdd and 3CosMul answer correctly (found, 2)."""
    rows = question_rows(embeddings, questions, restrict)
    complete: NDArray[np.bool_] = np.all(rows >= 0, axis=1)
    complete_rows = rows[complete]
    return complete, answer(embeddings, complete_rows[:, :3], restrict) == complete_rows[:, 3:]


def score_analogies(
    embeddings: Embeddings, sections: Mapping[str, Sequence[Question]], restrict: int
) -> dict[str, AnalogyScore]:
    """Returns section -> score, then `semantic` and `syntactic` for Google's section names, and `total`."""
    counts: dict[str, NDArray[np.int64]] = {}  # right by 3CosAdd, right by 3CosMul, found, asked
    questions = [question for section in sections.values() for question in section]
    complete, right = right_answers(embeddings, questions, restrict)
    every = np.zeros((len(questions), 2), np.int64)
    every[complete] = right
    begin = 0
    for name, section in sections.items():
        part = slice(begin, begin + len(section))
        counts[name] = np.array([*every[part].sum(axis=0), complete[part].sum(), len(section)])
        begin += len(section)
    groups = {"total": list(sections)}
    if any(name.startswith(SYNTACTIC) for name in sections):
        groups = {
            "semantic": [name for name in sections if not name.startswith(SYNTACTIC)],
            "syntactic": [name for name in sections if name.startswith(SYNTACTIC)],
            **groups,
        }
    summed = {group: np.sum([counts[name] for name in names], axis=0) for group, names in groups.items() if names}
    return {name: _score(count) for name, count in {**counts, **summed}.items()}


def _score(counts: NDArray[np.int64]) -> AnalogyScore:
    add, mul, complete, questions_asked = counts.tolist()
    return AnalogyScore(100 * add / max(1, complete), 100 * mul / max(1, complete), complete, questions_asked)
