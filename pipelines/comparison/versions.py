"""The page of `evaluate.against`: versions of a model on one or several sets, and line by line."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.model.files import atomic_write
from dragoman.model.plural import plural
from dragoman.model.runs import paths
from dragoman.pipelines.comparison.lines import Compared, lines_of
from dragoman.pipelines.comparison.page import Report, render
from dragoman.pipelines.comparison.table import Table
from dragoman.pipelines.evaluation.sets.read import HeldOutSet
from dragoman.pipelines.evaluation.sets.scores import LABELS, SetScores
from dragoman.pipelines.evaluation.sets.stored import System


def write_page(
    folder: Path, name: str, sets: Sequence[HeldOutSet], scored: Sequence[tuple[System, Sequence[SetScores]]]
) -> Path:
    """Writes the page of systems and their scores, the baseline first and the candidate last; returns its path.

    `name`: the split, or `sets`.
    """
    systems = [system for system, _ in scored]
    rows = []
    for place, held_out in enumerate(sets):
        for system, scores in scored:
            set_scores = scores[place]
            figures = [(f"{value:.2f}", "") for value in set_scores.scores.values()]
            row = [
                (system.label, held_out.name),
                (f"{set_scores.sentences:,}", plural(set_scores.references, "reference")),
                *figures,
            ]
            rows.append(row)
    metrics = scored[0][1][0].signatures
    head = [("system", "set"), ("sentences", ""), *((LABELS[metric], "") for metric in metrics)]
    compared = [
        Compared(
            held_out.name,
            held_out.sources,
            held_out.references,
            held_out.domains,
            {system.label: system.translations[place] for system in systems},
        )
        for place, held_out in enumerate(sets)
    ]
    names = [system.label for system in systems]
    report = Report(
        title=f"{names[-1]} against {', '.join(names[:-1])}",
        lead=f"{systems[0].bundle.pair}, {plural(len(sets), 'test set')}: the scores, and the lines that differ.",
        table=Table(head, rows, {}, {system.label: system.bundle.digest for system in systems}),
        pictures=(),
        lines=lines_of(compared, systems[0].bundle.languages),
        notes=[
            "; ".join(f"{LABELS[metric]} {signature}" for metric, signature in metrics.items()) + ".",
            "Bundles: "
            + ", ".join(f"{system.label} {system.bundle.digest[:12]} ({system.engine})" for system in systems)
            + ".",
            "Faults of meaning are found by rules: docs/evaluation.md says what each finds. Made by: dragoman evaluate",
        ],
    )
    page = paths.lines_page(folder, name)
    atomic_write(page, render(report))
    return page
