"""Compares two models that label the same texts, by a test that fits what they answer.

classes   McNemar's exact test: of the texts that one of them has right and the other wrong, how many are whose
          (McNemar 1947; Dietterich 1998 recommends it for classifiers that were trained once)
tags      paired bootstrap resampling over texts of the share of wrong tags, because words of a text hang together
numbers   the same of the mean absolute error
"""

from dragoman.model.errors import UserError
from dragoman.pipelines.evaluation.labels.evaluation import LabelEvaluation
from dragoman.pipelines.evaluation.significance import Significance, mcnemar, paired


def compare(baseline: LabelEvaluation, candidate: LabelEvaluation, samples: int = 1000) -> Significance:
    """Returns the difference and its probability by chance.

    Raises UserError: models of different tasks, or evaluated on other texts.
    """
    if baseline.task != candidate.task:
        raise UserError(f"a model of {candidate.task} and a model of {baseline.task} cannot be compared")
    if baseline.texts != candidate.texts or baseline.gold != candidate.gold:
        raise UserError("the two models were evaluated on other texts")
    if candidate.task == "classes":
        return mcnemar(baseline.wrong == 0, candidate.wrong == 0)
    metric = "mean error" if candidate.task == "numbers" else "accuracy"
    significance = paired(baseline.wrong, candidate.wrong, candidate.sizes, metric, samples, "texts")
    return significance if metric == "mean error" else significance.turned()
