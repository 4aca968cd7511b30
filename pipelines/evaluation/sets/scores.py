"""Scores of translations of a test set by the metrics of `evaluate.metrics`: in all, by domain and by length."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from dragoman.model.columns import columns
from dragoman.model.inference.bleu import UNSPACED, tokeniser
from dragoman.pipelines.evaluation.metrics import LABELS, Unit, length_groups, scorer
from dragoman.pipelines.evaluation.sets.read import HeldOutSet
from dragoman.pipelines.settings import MetricName

Rows = Sequence[int]


class Judge(Protocol):
    """A learned metric."""

    signature: str

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[float]:
        """Returns the score of each line."""


@dataclass(frozen=True)
class Group:
    """The scores of some lines of a set."""

    name: str
    sentences: int
    scores: dict[str, float]


@dataclass(frozen=True)
class SetScores:
    """The scores of one system on one set; BLEU, chrF and TER from 0 to 100; TER and MetricX better when lower."""

    name: str
    sentences: int
    references: int  # the most of a line
    scores: dict[str, float]
    signatures: dict[str, str]
    domains: list[Group]
    unit: str  # of `lengths`: words or characters of the first reference
    lengths: list[Group]

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


def score_set(
    held_out: HeldOutSet,
    hypotheses: Sequence[str],
    metrics: Sequence[MetricName],
    language: str,
    tokenize: str = "auto",
    judges: Mapping[str, Judge] | None = None,
) -> SetScores:
    """Returns the scores of a system's translations of a set; `language` is the target's. `judges` are the learned
    metrics by name; a set's score is the mean of its lines'.

    Raises UserError: an unknown tokeniser, or one that is not installed.
    """
    name, rows = tokeniser(tokenize, language), range(len(held_out.sources))
    learned = judges or {}
    lines = {
        metric: learned[metric].score(held_out.sources, hypotheses, held_out.references)
        for metric in metrics
        if metric in learned
    }
    overlaps = {metric: scorer(metric, name, language) for metric in metrics if metric not in learned}

    def score(metric: MetricName, some: Rows) -> float:
        if metric in lines:
            return math.fsum(lines[metric][row] for row in some) / len(some)
        return float(overlaps[metric].corpus_score([hypotheses[row] for row in some], held_out.streams(some)).score)

    def group(title: str, some: Rows) -> Group:
        return Group(title, len(some), {metric: score(metric, some) for metric in metrics})

    whole = group(held_out.name, rows)
    signatures: dict[str, str] = {  # sacreBLEU's are of the last texts that were scored
        metric: learned[metric].signature if metric in learned else str(overlaps[metric].get_signature())
        for metric in metrics
    }
    by_domain: dict[str, list[int]] = {}
    for row, domain in enumerate(held_out.domains):
        by_domain.setdefault(domain or "none", []).append(row)
    unit: Unit = "characters" if name in UNSPACED else "words"
    lengths = length_groups(held_out.first, unit)
    return SetScores(
        held_out.name,
        len(held_out.sources),
        held_out.most,
        whole.scores,
        signatures,
        [group(*each) for each in sorted(by_domain.items())],
        unit,
        [group(*each) for each in lengths],
    )


def tables(scores_of_sets: Sequence[SetScores]) -> str:
    """Returns the table with a row per set, those by domain and by length, and each metric's signatures."""
    metrics = list(scores_of_sets[0].scores)
    labels = [LABELS[metric] for metric in metrics]
    head = ["set", "sentences", "references", *labels]
    rows = [
        [set_scores.name, f"{set_scores.sentences:,}", set_scores.references, *_cells(set_scores.scores)]
        for set_scores in scores_of_sets
    ]
    parts = ["\n".join(columns([head, *rows], right=True))]
    for title, groups in (
        ("domain", [(set_scores.name, each) for set_scores in scores_of_sets for each in set_scores.domains]),
        ("length", [(set_scores.name, each) for set_scores in scores_of_sets for each in set_scores.lengths]),
    ):
        if groups:
            rows = [[f"{name} {each.name}", f"{each.sentences:,}", *_cells(each.scores)] for name, each in groups]
            unit = f", in {scores_of_sets[0].unit} of the reference" if title == "length" else ""
            parts.append("\n".join(columns([[f"by {title}{unit}", "sentences", *labels], *rows], right=True)))
    return "\n\n".join([*parts, "\n".join(_signatures(scores_of_sets, metrics))])


def _cells(scores: Mapping[str, float]) -> list[str]:
    return [f"{value:.2f}" for value in scores.values()]


def _signatures(scores_of_sets: Sequence[SetScores], metrics: Sequence[str]) -> list[str]:
    """Returns a line for each metric and signature, with the sets that it is of."""
    lines = []
    for metric in metrics:
        sets: dict[str, list[str]] = {}
        for set_scores in scores_of_sets:
            sets.setdefault(set_scores.signatures[metric], []).append(set_scores.name)
        lines += [f"{LABELS[metric]}|{signature} ({', '.join(names)})" for signature, names in sets.items()]
    return lines
