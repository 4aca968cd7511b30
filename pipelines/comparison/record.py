"""The comparison in MLflow: one run with the table as metrics, every picture and the page."""

from pathlib import Path

from dragoman.conf import compose
from dragoman.model.files import atomic_write
from dragoman.pipelines.comparison.measures import folder
from dragoman.pipelines.comparison.page import Report, render
from dragoman.pipelines.config import Config
from dragoman.pipelines.tracking.lineage import log_comparison
from dragoman.pipelines.tracking.run import TrackedRun

PAGE = "compare.html"


def write(config: Config, report: Report) -> Path:
    """Writes the page and its pictures to the comparison's folder and to MLflow; returns the page's path."""
    home = folder(config)
    pictures = home / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("*.png"):
        old.unlink()
    for picture in report.pictures:
        atomic_write(pictures / f"{picture.name}.png", picture.png)
    page = home / PAGE
    atomic_write(page, render(report))
    with TrackedRun(config.tracking, home, config.compare.name, system=False) as run:
        values = compose.plain(config)
        log_comparison(run, values, compose.fingerprint(values), config.shard_dir)
        table = report.table
        run.metrics(len(run.history().get("networks", ())), {"networks": float(len(table.rows)), **table.metrics})
        names, *cells = table.lines()
        run.table(names, cells, "table.json")
        run.artifact(page)
        for picture in report.pictures:
            run.artifact(pictures / f"{picture.name}.png", "pictures")
        run.tags({f"bundle.{label}": digest[:12] for label, digest in table.bundles.items()})
    return page
