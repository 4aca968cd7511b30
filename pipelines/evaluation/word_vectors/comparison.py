"""Compares word vectors on the same tasks, over the words that all have, with the significance of a lead."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.evaluation.significance import SEED, Significance
from dragoman.pipelines.evaluation.word_vectors.analogies import right_answers
from dragoman.pipelines.evaluation.word_vectors.evaluation import Sets, evaluate_embeddings
from dragoman.pipelines.evaluation.word_vectors.retrieval import Records
from dragoman.pipelines.evaluation.word_vectors.similarity import Floats, pair_rows, weighted_spearman
from dragoman.pipelines.word_vectors.settings import EvaluateVectors

Metric = Literal["auto", "similarity", "analogies"]
METRICS: dict[Metric, str] = {
    "auto": "mean of similarity and analogies",
    "similarity": "similarity (Spearman x 100)",
    "analogies": "analogies (% right)",
}
AT_ONCE = 100  # resampled sets in memory


# One set, answered by two embeddings: the pairs or questions that both know, and (samples, 2) their scores in percent,
# where item i occurs `weights[s, i]` times in sample s (samples, items).
Task = tuple[int, Callable[[Floats], Floats]]


def similarity_scores(marks: Floats, cosines: Sequence[Floats], weights: Floats) -> Floats:
    """Returns Spearman's rho times 100, 0 if it is not defined, of (n,) cosines with people's ratings (n,)."""
    rho = [weighted_spearman(of_pairs, marks, weights) for of_pairs in cosines]
    return 100 * np.nan_to_num(np.stack(rho, axis=1))


def analogy_scores(right: Floats, weights: Floats) -> Floats:
    """Returns the percentage of correct answers, from (2, n) 1 or 0."""
    shares: Floats = 100 * (weights @ right.T) / weights.sum(axis=1, keepdims=True)
    return shares


def restrict_to_shared_words(every: Sequence[Embeddings]) -> list[Embeddings]:
    """Returns the same embeddings over the words that all of them have, in the order of the first.

    So all get the same pairs, questions and wrong candidates, and a restriction means the same words.
    """
    words = [word for word in every[0].words if all(table.row(word) is not None for table in every[1:])]
    if not words:
        raise UserError("the word vectors have no word in common; were they trained on the same language?")
    shared = []
    for embeddings in every:
        rows = np.array([embeddings.rows[word] for word in words])
        shared.append(
            Embeddings(
                words,
                embeddings.counts[rows],
                embeddings.vectors[rows],
                embeddings.weights[rows],
                embeddings.texts,
                embeddings.language,
            )
        )
    return shared


def tasks(baseline: Embeddings, candidate: Embeddings, sets: Sets, restrict: int) -> dict[str, list[Task]]:
    """Returns the similarity sets and analogies that two embeddings over the same words can answer."""
    pair = (baseline, candidate)
    similarity: list[Task] = []
    for similarity_set in sets.similarity:
        rows = pair_rows(baseline, similarity_set.pairs)
        complete = (rows >= 0).all(axis=1)
        if complete.sum() > 1:
            cosines = [embeddings.similarities(rows[complete]) for embeddings in pair]
            scores = partial(similarity_scores, similarity_set.marks[complete], cosines)
            similarity.append((int(complete.sum()), scores))
    analogies: list[Task] = []
    for sections in sets.analogies.values():
        questions = [question for section in sections.values() for question in section]
        right = [right_answers(embeddings, questions, restrict)[1][:, 0] for embeddings in pair]
        if len(right[0]):
            analogies.append((len(right[0]), partial(analogy_scores, np.stack(right).astype(np.float64))))
    return {"similarity": similarity, "analogies": analogies}


def significance(
    baseline: Embeddings, candidate: Embeddings, sets: Sets, restrict: int, metric: Metric = "auto", samples: int = 1000
) -> Significance:
    """Tests whether the candidate is better, by paired bootstrap resampling (Koehn 2004) over the words both have.

    Resamples the pairs of each set and the questions of each file. The score is the mean over the sets, weighted by
    their pairs, or over all questions (3CosAdd); `auto`: the mean of the two, if both exist. The p-value is two-sided,
    as in `Significance.of_drawn`.

    Raises UserError: no words in common, or no pairs and questions for the metric.
    """
    baseline, candidate = restrict_to_shared_words([baseline, candidate])
    measured = tasks(baseline, candidate, sets, restrict)
    groups = {name: group for name, group in measured.items() if group and metric in ("auto", name)}
    if not groups:
        raise UserError(
            "vectors.evaluate: the vectors have no pairs and no questions in common"
            + ("" if metric == "auto" else f" for the metric {metric}")
            + "; name sets with vectors.evaluate.root (vectors=english lists the English ones)"
        )
    (whole,) = _totals(groups, None, 1)
    rng = np.random.default_rng(SEED)
    resampled = np.concatenate(
        [_totals(groups, rng, min(AT_ONCE, samples - begin)) for begin in range(0, samples, AT_ONCE)]
    )
    differences = resampled[:, 1] - resampled[:, 0]
    sizes = {name: sum(count for count, _ in measured[name]) if name in groups else 0 for name in measured}
    return Significance.of_drawn(
        "similarity and analogies" if len(groups) == 2 else next(iter(groups)),
        float(whole[0]),
        float(whole[1]),
        float(whole[1] - whole[0]),
        differences,
        signature=f"words:{len(baseline)}|pairs:{sizes['similarity']}|questions:{sizes['analogies']}"
        f"|restrict:{baseline.limit(restrict)}|bs:{samples}|seed:{SEED}",
    )


def _totals(groups: Mapping[str, Sequence[Task]], rng: np.random.Generator | None, samples: int) -> Floats:
    """Returns (samples, 2) scores of samples drawn by `rng`; None: of the sets themselves."""
    means = []
    for group in groups.values():
        total, items = np.zeros((samples, 2)), 0
        for count, scores in group:
            shares = np.full(count, 1 / count)
            weights = np.ones((1, count)) if rng is None else rng.multinomial(count, shares, samples)
            total += count * scores(weights.astype(np.float64))
            items += count
        means.append(total / items)
    mean: Floats = np.mean(means, axis=0)
    return mean


def method_table(
    every: Mapping[str, Embeddings], settings: EvaluateVectors, sets: Sets, records: Records = ()
) -> dict[str, dict[str, float | None]]:
    """Returns task -> name -> score over the words that all have: similarity, analogies, retrieval, and their means.

    Raises UserError: no word in common.
    """
    by_method = {
        name: evaluate_embeddings(embeddings, settings, sets, records).scores()
        for name, embeddings in zip(every, restrict_to_shared_words(list(every.values())), strict=True)
    }
    rows = dict.fromkeys(key for scores in by_method.values() for key in scores if is_in_table(key))
    return {key: {name: scores.get(key) for name, scores in by_method.items()} for key in rows}


def is_in_table(key: str) -> bool:
    """Returns True if a score belongs in the table of methods: no coverage, and for analogies only the totals."""
    task, _, name = key.partition("/")
    if task.startswith("analogies"):
        return name == "mean" or name.endswith("/total")
    return task in ("similarity", "retrieval") and name != "coverage"
