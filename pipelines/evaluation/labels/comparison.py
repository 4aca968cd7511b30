"""Compares two models that label the same texts, by a test that fits what they answer.

classes   McNemar's exact test: of the texts that one of them has right and the other wrong, how many are whose
          (McNemar 1947; Dietterich 1998 recommends it for classifiers that were trained once)
tags      paired bootstrap resampling over texts of the share of wrong tags, because words of a text hang together
numbers   the same of the mean absolute error
"""

from dataclasses import dataclass

from dragoman.model.errors import UserError
from dragoman.pipelines.evaluation.labels.evaluation import LabelEvaluation
from dragoman.pipelines.evaluation.language.comparison import paired


@dataclass(frozen=True)
class LabelSignificance:
    """The difference of two models on the same texts."""

    metric: str
    baseline: float
    candidate: float
    p_value: float  # probability of such a difference by chance, two-sided; 1.0 if there is none
    texts: int
    lower_is_better: bool
    test: str

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.candidate:.4f} against {self.baseline:.4f}: {self.candidate - self.baseline:+.4f} "
            f"on {self.texts:,} texts ({self.test}, p = {self.p_value:.4f})"
        )


def compare(baseline: LabelEvaluation, candidate: LabelEvaluation, samples: int = 1000) -> LabelSignificance:
    """Returns the difference and its probability by chance.

    Raises:
        UserError: models of different tasks, or evaluated on other texts.
    """
    if baseline.task != candidate.task:
        raise UserError(f"a model of {candidate.task} and a model of {baseline.task} cannot be compared")
    if baseline.texts != candidate.texts or baseline.gold != candidate.gold:
        raise UserError("the two models were evaluated on other texts")
    count = len(candidate.texts)
    if candidate.task == "classes":
        ours, theirs = candidate.wrong == 0, baseline.wrong == 0
        p_value, told = mcnemar(int((ours & ~theirs).sum()), int((theirs & ~ours).sum()))
        return LabelSignificance("accuracy", float(theirs.mean()), float(ours.mean()), p_value, count, False, told)
    found = paired(baseline.wrong, candidate.wrong, candidate.sizes, "errors", samples)
    told = f"{samples:,} resampled sets"
    if candidate.task == "numbers":
        return LabelSignificance("mean error", found.baseline, found.candidate, found.p_value, count, True, told)
    right = 1.0 - found.baseline, 1.0 - found.candidate
    return LabelSignificance("accuracy", *right, found.p_value, count, False, told)


def mcnemar(gained: int, lost: int) -> tuple[float, str]:
    """Returns the exact two-sided p-value, and the counts as text: texts that only one of two models has right."""
    from scipy.stats import binomtest

    told = f"McNemar, {gained:,} gained and {lost:,} lost"
    return (float(binomtest(gained, gained + lost, 0.5).pvalue) if gained != lost else 1.0), told
