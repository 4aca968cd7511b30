"""Evaluates word vectors: similarity sets, analogies, neighbours."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dragoman.model.columns import columns
from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings, Neighbour
from dragoman.pipelines.evaluation.word_vectors.analogies import AnalogyScore, Question, read_analogies, score_analogies
from dragoman.pipelines.evaluation.word_vectors.similarity import (
    SimilarityScore,
    SimilaritySet,
    plain_name,
    read_similarity,
    score_similarity,
)
from dragoman.pipelines.word_vectors.settings import EvaluateVectors

SHOWN_WORDS = 12  # words whose neighbours are shown by default
EVERYWHERE = 100  # the most frequent words: "the", "be", "said" tell little


@dataclass(frozen=True)
class Sets:
    """The evaluation sets, read once for one or several embeddings."""

    similarity: list[SimilaritySet]
    analogies: dict[str, dict[str, list[Question]]]  # file -> section -> questions

    def words(self) -> list[str]:
        """Returns the distinct words of the similarity sets in their order."""
        return list(
            dict.fromkeys(word for similarity_set in self.similarity for pair in similarity_set.pairs for word in pair)
        )


@dataclass
class VectorsEvaluation:
    """The results. All scores are in percent, including Spearman's rho times 100."""

    words: int  # V
    width: int  # d
    restrict: int  # analogies search this many most frequent words
    similarity: dict[str, SimilarityScore] = field(default_factory=dict)  # by set
    analogies: dict[str, dict[str, AnalogyScore]] = field(default_factory=dict)  # by file, section and total
    neighbours: dict[str, list[Neighbour]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)  # unknown words whose neighbours were requested
    seconds: float = 0.0

    def scores(self) -> dict[str, float]:
        """Returns the figures by name, for MLflow and the bundle's facts, without undefined ones.

        `similarity/SET` and `similarity/mean` (of the sets, weighted by the pairs found), `coverage/SET`,
        `analogies/FILE/SECTION` by 3CosAdd and `analogies_3cosmul/...`, `analogies/mean` (of all questions found).
        """
        values: dict[str, float] = {}
        for name, similarity in self.similarity.items():
            values |= {} if similarity.spearman is None else {f"similarity/{name}": similarity.spearman}
            values[f"coverage/{name}"] = similarity.coverage
        for file, sections in self.analogies.items():
            for section, score in sections.items():
                if score.found:
                    values[f"analogies/{file}/{section}"] = score.cosadd
                    values[f"analogies_3cosmul/{file}/{section}"] = score.cosmul
            values[f"coverage/{file}"] = sections["total"].coverage
        ranked = [
            (similarity.spearman, similarity.found)
            for similarity in self.similarity.values()
            if similarity.spearman is not None
        ]
        accuracies = [(sections["total"].cosadd, sections["total"].found) for sections in self.analogies.values()]
        for name, figures in (("similarity/mean", ranked), ("analogies/mean", accuracies)):
            weight = sum(count for _, count in figures)
            if weight:
                values[name] = sum(value * count for value, count in figures) / weight
        return values

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


def read_sets(settings: EvaluateVectors) -> Sets:
    """Reads the files of the settings; none if there is no root."""
    root = settings.root
    if root is None:
        return Sets([], {})
    if not Path(root).is_dir():
        raise UserError(f"vectors.evaluate.root: {root!r} is no folder")
    names = [plain_name(Path(name)).stem for name in (*settings.similarity, *settings.analogies)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"vectors.evaluate: two files are called {', '.join(twice)}; their scores would be as one")
    return Sets(
        [read_similarity(Path(root) / name) for name in settings.similarity],
        {plain_name(Path(name)).stem: read_analogies(Path(root) / name) for name in settings.analogies},
    )


def halves(sets: Sets) -> tuple[Sets, Sets]:
    """Splits into two sets without a common item, each with about half of every file, by a hash of the item's words."""

    def first(words: Sequence[str]) -> bool:
        return hashlib.sha256(" ".join(words).casefold().encode()).digest()[0] % 2 == 0

    def half(chosen: bool) -> Sets:
        similarity = []
        for similarity_set in sets.similarity:
            rows = [row for row, pair in enumerate(similarity_set.pairs) if first(sorted(pair)) is chosen]
            similarity.append(
                SimilaritySet(
                    similarity_set.name, [similarity_set.pairs[row] for row in rows], similarity_set.marks[rows]
                )
            )
        analogies = {
            file: {
                section: [question for question in questions if first(question) is chosen]
                for section, questions in sections.items()
            }
            for file, sections in sets.analogies.items()
        }
        return Sets(similarity, analogies)

    return half(True), half(False)


def evaluate_embeddings(
    embeddings: Embeddings, settings: EvaluateVectors, sets: Sets | None = None
) -> VectorsEvaluation:
    """Runs every evaluation of the settings.

    `sets`: the result of `read_sets`, if available.
    """
    begin = time.perf_counter()
    sets = read_sets(settings) if sets is None else sets
    words, unknown = chosen_words(embeddings, settings, sets)
    return VectorsEvaluation(
        words=len(embeddings),
        width=embeddings.width,
        restrict=embeddings.limit(settings.restrict),
        similarity={
            similarity_set.name: score_similarity(embeddings, similarity_set) for similarity_set in sets.similarity
        },
        analogies={
            name: score_analogies(embeddings, sections, settings.restrict) for name, sections in sets.analogies.items()
        },
        neighbours={word: embeddings.neighbours(word, settings.neighbours) for word in words},
        unknown=unknown,
        seconds=time.perf_counter() - begin,
    )


def chosen_words(embeddings: Embeddings, settings: EvaluateVectors, sets: Sets) -> tuple[list[str], list[str]]:
    """Returns the known words whose neighbours are shown, spelled as in the vectors, and the settings' unknown ones.

    By default the frequent ones among the sets' words, or without sets some of each frequency.
    """
    rows = {word: embeddings.find(word) for word in settings.words}
    if rows:
        words = [embeddings.words[row] for row in rows.values() if row is not None]
        return list(dict.fromkeys(words)), [word for word, row in rows.items() if row is None]
    of_sets = frequent_rows(embeddings, sets)
    if not of_sets:
        size = len(embeddings)
        of_sets = sorted({min(size - 1, round(size ** (step / SHOWN_WORDS))) for step in range(1, SHOWN_WORDS + 1)})
    return [embeddings.words[row] for row in of_sets[:SHOWN_WORDS]], []


def frequent_rows(embeddings: Embeddings, sets: Sets) -> list[int]:
    """Returns the rows of the similarity sets' words, frequent first; the most common words last."""
    rows = {row for row in map(embeddings.find, sets.words()) if row is not None}
    return sorted(rows, key=lambda row: (row < EVERYWHERE, row))


def report(evaluation: VectorsEvaluation) -> str:
    evaluated = evaluation
    parts = [[f"{evaluated.words:,} words of {evaluated.width:,} numbers; measured in {evaluated.seconds:.1f} s"]]
    if evaluated.similarity:
        rows = [
            [name, _figure(score.spearman), f"{score.found:,} of {score.pairs:,}"]
            for name, score in evaluated.similarity.items()
        ]
        mean = evaluated.scores().get("similarity/mean")
        rows.append(
            ["mean, by pairs", _figure(mean), f"{sum(score.found for score in evaluated.similarity.values()):,}"]
        )
        parts.append(columns([["similarity", "Spearman", "pairs found"], *rows], right=True))
    for file, sections in evaluated.analogies.items():
        title = f"{file}, among {evaluated.restrict:,} words"
        rows = [
            [
                name,
                *(_figure(right if score.found else None) for right in (score.cosadd, score.cosmul)),
                f"{score.found:,} of {score.asked:,}",
            ]
            for name, score in sections.items()
        ]
        parts.append(columns([[title, "3CosAdd", "3CosMul", "questions found"], *rows], right=True))
    if evaluated.neighbours:
        parts.append(
            [
                f"{word}: {', '.join(f'{near.word} {near.similarity:.2f}' for near in neighbours)}"
                for word, neighbours in evaluated.neighbours.items()
            ]
        )
    if evaluated.unknown:
        parts.append([f"not among the words: {', '.join(evaluated.unknown)}"])
    return "\n\n".join("\n".join(part) for part in parts)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
