"""Tests whether word vectors are better than others on the same sets, over the words that both have."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.evaluation.significance import Significance, compare_items
from dragoman.pipelines.evaluation.word_vectors.analogies import right_answers
from dragoman.pipelines.evaluation.word_vectors.evaluation import Sets
from dragoman.pipelines.evaluation.word_vectors.similarity import Floats, pair_rows, standard_ranks

Metric = Literal["auto", "similarity", "analogies"]
METRICS: dict[Metric, str] = {
    "auto": "mean of similarity and analogies",
    "similarity": "similarity (Spearman x 100)",
    "analogies": "analogies (% right)",
}


def compare_embeddings(
    baseline: Embeddings, candidate: Embeddings, sets: Sets, restrict: int, metric: Metric = "auto", trials: int = 1000
) -> Significance:
    """Tests two embeddings by the pairs and questions that both know.

    Spearman's correlation of a set is the mean of a value of each pair (`similarity_values`), and the share of right
    answers that of each question, so an item's values can be exchanged. The score is the mean over all pairs, or over
    all questions (3CosAdd); `auto`: the mean of the two, if both exist.
    """
    pair = restrict_to_shared_words([baseline, candidate])
    values = {"similarity": similarity_values(pair, sets), "analogies": analogy_values(pair, sets, restrict)}
    groups = {name: group for name, group in values.items() if group.size and metric in ("auto", name)}
    if not groups:
        raise UserError(
            "vectors.evaluate: the vectors have no pairs and no questions in common"
            + ("" if metric == "auto" else f" for the metric {metric}")
            + "; name sets with vectors.evaluate.root (vectors=english lists the English ones)"
        )
    items = sum(group.shape[1] for group in groups.values())
    shares = [group * (items / (len(groups) * group.shape[1])) for group in groups.values()]
    before, after = np.concatenate(shares, axis=1)
    name = "similarity and analogies" if len(groups) == 2 else next(iter(groups))
    return compare_items(before, after, np.ones(items), name, trials, "pairs and questions", lower_is_better=False)


def similarity_values(pair: Sequence[Embeddings], sets: Sets) -> Floats:
    """Returns (2, pairs) of all sets: the product of the standard ranks of cosine and rating, in percent."""
    values = [np.empty((2, 0))]
    for similarity_set in sets.similarity:
        rows = pair_rows(pair[0], similarity_set.pairs)
        known = (rows >= 0).all(axis=1)
        if known.sum() > 1:
            ratings = standard_ranks(similarity_set.marks[known])
            values.append(np.stack([100 * ratings * standard_ranks(of.similarities(rows[known])) for of in pair]))
    return np.concatenate(values, axis=1)


def analogy_values(pair: Sequence[Embeddings], sets: Sets, restrict: int) -> Floats:
    """Returns (2, questions) of all files: 100 for a right answer, else 0."""
    values = [np.empty((2, 0))]
    for sections in sets.analogies.values():
        questions = [question for section in sections.values() for question in section]
        values.append(np.stack([100.0 * right_answers(of, questions, restrict)[1][:, 0] for of in pair]))
    return np.concatenate(values, axis=1)


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
