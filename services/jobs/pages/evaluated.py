"""Reads what an evaluation left at a version's run in MLflow: sample outputs and pictures, each under a fixed name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.model.errors import ServiceError
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.service.tracking import Version

PICTURES = {  # word of the address -> (artifact, caption)
    "attention": ("attention.png", "Attention on short samples: rows are the output's words, columns the source's"),
    "maps": ("alignment/maps.png", "The best attention on four sentences; frames are gold links"),
    "heads": ("alignment/heads.png", "All heads on one sentence"),
    "errors": ("alignment/errors.png", "Alignment error rate of every head"),
    "confusion": ("evaluation/confusion-test.png", "Labels that were taken for others"),
    "surprise": ("evaluation/surprise-test.png", "How well each line of the test set was predicted"),
    "curves": ("curves.png", "Training"),
}
TABLES = ("samples.json", "mistakes.json")  # the first that there is
MOST_SAMPLES, MOST_COLUMNS, LONGEST = 20, 6, 600
LARGEST, LARGEST_PICTURE = 1 << 20, 8 << 20  # bytes
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Evaluated:
    """Samples as a table, the pictures that there are (word, caption), and why nothing is known."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    pictures: Sequence[tuple[str, str]] = ()
    away: str = ""


def evaluated(site: Site, version: Version) -> Evaluated:
    """Returns the samples and pictures of a version's run."""
    if not version.run:
        return Evaluated()
    try:
        there = site.tracking.artifacts(version.run)
        for folder in sorted({path.partition("/")[0] for path, _ in PICTURES.values() if "/" in path} & there):
            there |= site.tracking.artifacts(version.run, folder)
        name = next((name for name in TABLES if name in there), None)
        table = site.tracking.artifact(version.run, name, LARGEST) if name else None
    except ServiceError as problem:
        return Evaluated(away=str(problem))
    columns, rows = _table(table) if table else ([], [])
    return Evaluated(columns, rows, [(word, told) for word, (path, told) in PICTURES.items() if path in there])


def picture(site: Site, version: Version, word: str) -> bytes | None:
    """Returns the PNG file of a picture of `PICTURES`; None if there is none."""
    found = site.tracking.artifact(version.run, PICTURES[word][0], LARGEST_PICTURE) if version.run else None
    return found if found is not None and found.startswith(PNG) else None


def _table(content: bytes) -> tuple[list[str], list[list[str]]]:
    """Returns columns and rows of a table as text; both empty if it is none."""
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        return [], []
    if not isinstance(found, Mapping) or not all(isinstance(found.get(key), list) for key in ("columns", "data")):
        return [], []
    columns = [str(one)[:LONGEST] for one in found["columns"][:MOST_COLUMNS]]
    rows = [one for one in found["data"][:MOST_SAMPLES] if isinstance(one, list) and len(one) >= len(columns)]
    return columns, [[str(cell)[:LONGEST] for cell in row[: len(columns)]] for row in rows]
