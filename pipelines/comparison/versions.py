"""The page of `evaluate.against`: versions of a model on one or several sets, and line by line."""

from collections.abc import Sequence
from pathlib import Path

from model.files import atomic_write
from model.plural import plural
from model.runs import paths
from pipelines.comparison.lines import Compared, lines_of
from pipelines.comparison.page import Report, render
from pipelines.comparison.table import Table
from pipelines.config import Config
from pipelines.evaluation.sets.read import HeldOutSet
from pipelines.evaluation.sets.scores import LABELS, score_set
from pipelines.evaluation.sets.system import System


def write_page(config: Config, folder: Path, name: str, sets: Sequence[HeldOutSet], systems: Sequence[System]) -> Path:
    """Writes the page of systems, the baseline first and the candidate last; returns its path.

    `name`: the split, or `sets`.
    """
    settings, languages = config.evaluate, systems[0].bundle.languages
    rows = []
    for place, one in enumerate(sets):
        for system in systems:
            texts = system.translations[place]
            found = score_set(one, texts, settings.metrics, languages[1], settings.tokenize, with_groups=False)
            scores = [(f"{value:.2f}", "") for value in found.scores.values()]
            rows.append(
                [(system.label, one.name), (f"{found.sentences:,}", plural(found.references, "reference")), *scores]
            )
    head = [("system", "set"), ("sentences", ""), *((LABELS[metric], "") for metric in settings.metrics)]
    compared = [
        Compared(
            one.name,
            one.sources,
            one.references,
            one.domains,
            {system.label: system.translations[place] for system in systems},
        )
        for place, one in enumerate(sets)
    ]
    names = [system.label for system in systems]
    report = Report(
        title=f"{names[-1]} against {', '.join(names[:-1])}",
        lead=f"{systems[0].bundle.pair}, {plural(len(sets), 'test set')}: the scores, and the lines that differ.",
        table=Table(head, rows, {}, {system.label: system.bundle.digest for system in systems}),
        pictures=(),
        lines=lines_of(compared, languages),
        notes=[
            "Bundles: " + ", ".join(f"{one.label} {one.bundle.digest[:12]} ({one.engine})" for one in systems) + ".",
            "Faults of meaning are found by rules: docs/evaluation.md says what each finds. Made by: dragoman evaluate",
        ],
    )
    page = paths.lines_page(folder, name)
    atomic_write(page, render(report))
    return page
