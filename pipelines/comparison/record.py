"""The comparison in MLflow: one run with the table as metrics, every picture and the page."""

from collections.abc import Sequence
from pathlib import Path

from conf import compose
from model.files import atomic_write
from pipelines.comparison.measures import folder
from pipelines.comparison.page import Report, render
from pipelines.comparison.table import HEAD, Row
from pipelines.config import Config
from pipelines.tracking.lineage import log_comparison
from pipelines.tracking.run import TrackedRun

PAGE = "compare.html"


def write(config: Config, report: Report) -> Path:
    """Writes the page and its pictures to the comparison's folder and to MLflow; returns the page's path."""
    home = folder(config)
    pictures = home / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("*.png"):
        old.unlink()
    for one in report.pictures:
        atomic_write(pictures / f"{one.name}.png", one.png)
    page = home / PAGE
    atomic_write(page, render(report))
    with TrackedRun(config.tracking, home, config.compare.name, system=False) as run:
        values = compose.plain(config)
        log_comparison(run, values, compose.fingerprint(values), config.shard_dir)
        run.metrics(len(run.history().get("networks", ())), metrics(report.table))
        names = [" ".join(filter(None, pair)) for pair in HEAD]
        cells = [[f"{large} ({small})" if small else large for large, small in row.cells()] for row in report.table]
        run.table(names, cells, "table.json")
        run.artifact(page)
        for one in report.pictures:
            run.artifact(pictures / f"{one.name}.png", "pictures")
        for row in report.table:
            run.tags({f"bundle.{row.measures.label}": row.measures.bundle[:12]})
    return page


def metrics(table: Sequence[Row]) -> dict[str, float]:
    """Returns `LABEL/bleu` and so on."""
    found = {"networks": float(len(table))}
    for row in table:
        label = row.measures.label
        found |= {f"{label}/{name}": value for name, value in row.measures.figures(row.record).items()}
        if row.step is not None:
            found[f"{label}/bleu_won"] = row.step.difference
            if row.tested:
                found |= {f"{label}/bleu_won_p": row.step.p_value, f"{label}/bleu_won_p_holm": row.corrected}
    return found
