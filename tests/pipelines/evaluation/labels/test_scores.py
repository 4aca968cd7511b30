"""Scores of labels by hand: spans as conlleval counts them, calibration."""

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.evaluation.labels.evaluation import (
    LabelEvaluation,
    are_spans,
    calibration,
    calibration_error,
    class_scores,
    span_scores,
    spans_of,
)


def test_macro_f1_is_the_mean_over_labels() -> None:
    found = class_scores(["a", "a", "a", "b"], ["a", "a", "b", "b"])
    assert found == {"accuracy": 0.75, "macro_f1": pytest.approx((0.8 + 2 / 3) / 2)}


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O B-PER I-PER O B-LOC", {(1, 3, "PER"), (4, 5, "LOC")}),
        ("B-PER B-PER I-PER", {(0, 1, "PER"), (1, 3, "PER")}),
        ("I-PER I-LOC I-LOC", {(0, 1, "PER"), (1, 3, "LOC")}),  # as conlleval: a span begins where the kind changes
        ("O O", set()),
        ("S-PER B-LOC E-LOC", {(0, 1, "PER"), (1, 3, "LOC")}),
    ],
)
def test_spans_are_those_of_conlleval(tags: str, spans: set[tuple[int, int, str]]) -> None:
    assert spans_of(tags.split()) == spans


def test_span_f1_counts_whole_spans() -> None:
    gold, guessed = [["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]]
    assert span_scores(gold, guessed) == {"span_precision": 0.5, "span_recall": 0.5, "span_f1": 0.5}
    assert span_scores(gold, [["O"] * 4])["span_f1"] == 0.0
    assert are_spans(["O", "B-PER", "I-PER"]) and not are_spans(["NOUN", "O"]) and not are_spans(["O"])


def test_the_calibration_error_is_the_gap_between_confidence_and_accuracy() -> None:
    bins = calibration(np.array([0.95, 0.95, 0.55, 0.55]), np.array([True, True, True, False]))
    assert calibration_error(bins) == pytest.approx((2 * 0.05 + 2 * 0.05) / 4)


def evaluation(guessed: str, task: str = "classes", gold: str = "aaaabbbb") -> LabelEvaluation:
    wrong = np.array([float(ours != theirs) for ours, theirs in zip(guessed, gold, strict=True)])
    sizes, confidence = np.ones(len(gold), np.int64), np.full(len(gold), 0.9)
    scores = {**class_scores(list(gold), list(guessed)), "ece": 0.1}
    bins = calibration(confidence, wrong == 0)
    return LabelEvaluation(
        task=task, pair="en", split="valid", labels=["a", "b"], texts=[f"text {n}" for n in range(len(gold))],  # type: ignore[arg-type]
        gold=list(gold), guessed=list(guessed), confidence=confidence, wrong=wrong, sizes=sizes, scores=scores,
        bins=bins, samples=0, seconds=0.1, bundle="", manifest_hash="",
    )  # fmt: skip


def test_classes_are_compared_by_the_texts_that_one_model_has_right() -> None:
    found = evaluation("aaaabbbb").compare(evaluation("aaabbbbb"))
    assert (found.baseline, found.candidate, found.p_value) == (0.875, 1.0, 1.0)


def test_models_of_other_tasks_or_texts_are_not_compared() -> None:
    with pytest.raises(UserError, match="cannot be compared"):
        evaluation("aaaabbbb").compare(evaluation("aaaabbbb", "tags"))
    with pytest.raises(UserError, match="other texts"):
        evaluation("aaaabbbb", gold="aaaabbba").compare(evaluation("aaaabbbb"))


def test_tags_are_compared_by_texts() -> None:
    found = evaluation("aaaabbbb", "tags").compare(evaluation("bbbbaaaa", "tags"), 200)
    assert found.candidate == 1.0 and found.baseline == 0.0 and found.p_value < 0.05


def test_the_pictures_are_drawn_and_the_report_names_the_scores() -> None:
    one = evaluation("aaabbbbb")
    assert set(one.pictures()) == {"confusion", "calibration"}
    assert "accuracy 0.8750, macro-F1" in one.report()
