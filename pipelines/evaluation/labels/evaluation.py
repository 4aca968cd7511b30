"""Evaluates a bundle that labels texts on a held-out split: its answers, its scores, its worst errors."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dragoman.model.alignment.attention_plots import save
from dragoman.model.bundles.labelled import LabelBundle
from dragoman.model.errors import UserError
from dragoman.model.inference.labeller import Labeller
from dragoman.model.plural import plural
from dragoman.model.runs.paths import label_picture
from dragoman.model.shards.manifest import LABELS
from dragoman.model.text.excerpt import excerpt
from dragoman.model.text.tokenizer import LabelTask
from dragoman.pipelines.evaluation.base import Rows, SplitEvaluation, origin
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.labels import plots
from dragoman.pipelines.evaluation.significance import Significance, compare_items
from dragoman.pipelines.tracking.plots import Figure

BINS = 15  # of the confidence, as in Guo et al. 2017
PREFIXES = {"B", "I", "E", "S", "L", "U"}  # of tags of spans: BIO, BIOES, BILOU
Span = tuple[int, int, str]  # first word, the word after the last, its kind


def class_scores(gold: Sequence[str], guessed: Sequence[str]) -> dict[str, float]:
    """Returns accuracy and macro-F1, the mean of each label's F1, over the labels that occur on either side."""
    from sklearn.metrics import accuracy_score, f1_score

    return {
        "accuracy": float(accuracy_score(gold, guessed)),
        "macro_f1": float(f1_score(gold, guessed, average="macro", zero_division=0.0)),
    }


def calibration(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> list[tuple[int, float, float]]:
    """Returns (labels, mean confidence, accuracy) of each of BINS equal ranges of confidence; of empty ones zeros."""
    numbers = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(numbers, minlength=BINS)
    sums = (np.bincount(numbers, values, BINS) for values in (confidence, right.astype(np.float64)))
    means = [means / np.maximum(counts, 1) for means in sums]
    return list(zip(counts.tolist(), means[0].tolist(), means[1].tolist(), strict=True))


def calibration_error(bins: Sequence[tuple[int, float, float]]) -> float:
    """Returns the expected calibration error: mean |confidence - accuracy| by labels (Guo et al. 2017, equation 3)."""
    total = sum(count for count, _, _ in bins)
    return sum(count * abs(confidence - right) for count, confidence, right in bins) / max(1, total)


def are_spans(labels: Sequence[str]) -> bool:
    """Returns True if the tags are those of spans: O, and kinds after B-, I- and their kin."""
    rest = [label for label in labels if label != "O"]
    return bool(rest) and all(label[1:2] == "-" and label[0] in PREFIXES for label in rest)


def spans_of(tags: Sequence[str]) -> set[Span]:
    """Returns the spans of a text's tags, as conlleval finds them: a span also begins where its kind changes."""
    spans, first = set(), 0
    for position, (before, tag) in enumerate(pairwise(["O", *tags, "O"])):
        inside = before != "O"
        goes_on = tag[0] in "IEL" and before[2:] == tag[2:] and before[0] not in "ESLU"
        if inside and not goes_on:
            spans.add((first, position, before[2:]))
        if tag != "O" and not (inside and goes_on):
            first = position
    return spans


def span_scores(gold: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns precision, recall and F1 of whole spans over all texts (Tjong Kim Sang and De Meulder 2003)."""
    there, guessed_spans = ([spans_of(tags) for tags in side] for side in (gold, guessed))
    right = sum(len(ours & theirs) for ours, theirs in zip(guessed_spans, there, strict=True))
    precision, recall = (right / max(1, sum(map(len, side))) for side in (guessed_spans, there))
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"span_precision": precision, "span_recall": recall, "span_f1": f1}


TINY = 1e-12  # least probability in a logarithm
NAMES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "span_f1": "span F1",
    "ece": "calibration error",
    "nll": "nats a label",
}


@dataclass(frozen=True)
class Mistake:
    """A text with a wrong label."""

    text: str
    truth: str
    guess: str
    score: float  # the guess's probability


@dataclass(kw_only=True)
class LabelEvaluation(SplitEvaluation):
    """The results, in the order of the held-out texts; a unit is a text, or for tags a word."""

    task: LabelTask
    labels: list[str]  # in the order of the outputs
    texts: list[str]
    gold: list[str]  # of each unit
    guessed: list[str]
    confidence: NDArray[np.float64]  # of each unit
    wrong: NDArray[np.float64]  # (texts,) wrong units
    sizes: NDArray[np.int64]  # (texts,) units
    scores: dict[str, float]
    bins: list[tuple[int, float, float]]
    samples: int  # mistakes that are shown

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """Returns the surest wrong labels."""
        owners, starts = np.repeat(np.arange(len(self.texts)), self.sizes), np.cumsum(self.sizes) - self.sizes

        def text_of(unit: int) -> str:
            owner = int(owners[unit])
            text = self.texts[owner]
            if self.sizes[owner] == 1:
                return text
            words, at = text.split(" "), unit - int(starts[owner])
            return " ".join([*words[:at], f"[{words[at]}]", *words[at + 1 :]])

        order = (
            unit
            for unit in np.argsort(-self.confidence, kind="stable").tolist()
            if self.gold[unit] != self.guessed[unit]
        )
        return [
            Mistake(text_of(unit), self.gold[unit], self.guessed[unit], float(self.confidence[unit]))
            for unit in islice(order, self.samples)
        ]

    def figures(self) -> dict[str, float]:
        return self.scores

    def details(self) -> dict[str, Any]:
        return {
            "pair": self.pair,
            "task": self.task,
            "scores": self.scores,
            "calibration": self.bins,
            "mistakes": [vars(mistake) for mistake in self.mistakes],
            "texts": len(self.texts),
        }

    def tables(self) -> dict[str, Rows]:
        rows = [[mistake.text, mistake.truth, mistake.guess, mistake.score] for mistake in self.mistakes]
        return {"mistakes.json": (["text", "truth", "guess", "score"], rows)}

    def pictures(self) -> dict[str, Figure]:
        """Returns `confusion` and `calibration`."""
        title, scores = f"{self.pair} {self.split}", self.scores
        accuracy, error = (f"{title}: {NAMES[key]} {scores[key]:.4f}" for key in ("accuracy", "ece"))
        return {
            "confusion": plots.confusion(self.gold, self.guessed, self.labels, accuracy),
            "calibration": plots.calibration(self.bins, error),
        }

    def unit(self) -> tuple[str, str]:
        return "label", "nats per {}"

    def write(self, folder: Path) -> list[Path]:
        """Writes the record and the pictures."""
        files = super().write(folder)
        for name, figure in self.pictures().items():
            files.append(label_picture(folder, name, self.split))
            save(figure, files[-1])
        return files

    def report(self) -> str:
        """Returns the scores, then the worst mistakes."""
        scores = ", ".join(f"{name} {self.scores[key]:.4f}" for key, name in NAMES.items() if key in self.scores)
        words = f", {plural(int(self.sizes.sum()), 'word')}" if self.task == "tags" else ""
        speed = len(self.texts) / max(self.seconds, 1e-9)
        lines = [f"{self.pair} {self.split}: {plural(len(self.texts), 'text')}{words}, {speed:,.0f} texts/s", scores]
        for mistake in self.mistakes:
            lines.append(f"  {mistake.truth}, guessed {mistake.guess} ({mistake.score:.3f}): {excerpt(mistake.text)}")
        return "\n".join(lines)

    def compare(self, baseline: Self, trials: int = 1000) -> Significance:
        """Tests the share of right labels, text by text."""
        if baseline.task != self.task:
            raise UserError(f"a model of {self.task} and a model of {baseline.task} cannot be compared")
        if baseline.texts != self.texts or baseline.gold != self.gold:
            raise UserError("the two models were evaluated on other texts")
        right = self.sizes - baseline.wrong, self.sizes - self.wrong
        return compare_items(*right, self.sizes, "accuracy", trials, "texts", lower_is_better=False)

    def floor(self) -> "tuple[str, LabelEvaluation]":
        """Returns a model that answers everything with the most frequent label."""
        [(label, _)] = Counter(self.gold).most_common(1)
        wrong = np.array([truth != label for truth in self.gold], np.float64)
        return "the most frequent label", replace(self, wrong=sums_of(wrong, self.sizes))


def sums_of(values: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns (texts,) the sums over the units of each text."""
    return np.add.reduceat(values, np.cumsum(sizes) - sizes)


def evaluate_label_bundle(
    bundle: LabelBundle, shards: Path, split: str = "test", texts: int = 0, samples: int = 10
) -> LabelEvaluation:
    """Labels the held-out texts of `split` in the shard directory and scores the answers; `texts` 0 means all."""
    lines, truth = held_out(shards, split, (bundle.language, LABELS), texts)
    if not lines:
        raise UserError(f"evaluate.split={split}: the split is empty")
    labeller, task = Labeller(bundle), bundle.task
    begin = time.perf_counter()
    choices = bundle.labels.labels
    rows: Sequence[NDArray[np.float32]]
    if task == "classes":
        rows, units = list(labeller.class_probabilities(lines)[:, None]), [[number] for number in truth]
    else:
        rows = labeller.tag_probabilities([line.split(" ") for line in lines])
        units = [line.split(" ") for line in truth]
    check_labels(bundle, units, shards)
    table = np.concatenate(list(rows)).astype(np.float64)  # (N, C)
    answers = [[choices[index] for index in row.argmax(1)] for row in rows]
    gold, guessed = ([label for text in side for label in text] for side in (units, answers))
    confidence = table.max(1)
    right = np.array([ours == theirs for ours, theirs in zip(guessed, gold, strict=True)])
    sizes = np.fromiter(map(len, units), np.int64, len(units))
    wrong = sums_of((~right).astype(np.float64), sizes)
    indices = {label: index for index, label in enumerate(choices)}
    of_gold = table[np.arange(len(gold)), [indices[label] for label in gold]]
    bins = calibration(confidence, right)
    scores = {
        **class_scores(gold, guessed),
        **(span_scores(units, answers) if task == "tags" and are_spans(choices) else {}),
        "ece": calibration_error(bins),
        "nll": float(-np.log(np.maximum(of_gold, TINY)).mean()),
    }
    return LabelEvaluation(
        task=task,
        pair=bundle.language,
        split=split,
        labels=choices,
        texts=lines,
        gold=gold,
        guessed=guessed,
        confidence=confidence,
        wrong=wrong,
        sizes=sizes,
        scores=scores,
        bins=bins,
        samples=samples,
        seconds=time.perf_counter() - begin,
        **origin(bundle, shards),
    )


def check_labels(bundle: LabelBundle, units: Sequence[Sequence[str]], shards: Path) -> None:
    """Raises UserError if held-out texts have labels that the bundle does not know."""
    unknown = sorted({label for text in units for label in text} - set(bundle.labels.labels))
    if unknown:
        raise UserError(
            f"{shards}: its texts have the labels {', '.join(unknown[:10])}, and the model in {bundle.directory} knows "
            f"{', '.join(bundle.labels.labels[:10])}; evaluate it on shards of its own labels"
        )
