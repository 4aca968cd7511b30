"""Lists as CSV. A spreadsheet must not take a text for a formula, so such a text begins with an apostrophe."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.pages.listing import Filter, older
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.pages.words import iso, priority

AT_ONCE = 500
HEAD = (
    "job",
    "owner",
    "project",
    "command",
    "run",
    "model",
    "tags",
    "state",
    "reason",
    "priority",
    "workers",
    "attempts",
)
TIMES = ("submitted", "changed", "seconds")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # OWASP, CSV injection


def as_csv(site: Site, person: Person, asked: Filter) -> Iterator[str]:
    """Yields the wanted jobs, newest first, as pieces of a CSV file."""
    yield csv_lines([(*HEAD, *TIMES)])
    before = None
    while found := older(site, person, asked, before, AT_ONCE):
        rows = (
            (
                *(
                    job.id,
                    job.owner,
                    job.project,
                    " ".join([job.verb, *job.words]),
                    job.run.partition(" ")[2],
                    job.model,
                ),
                *(" ".join(job.tags), job.state, job.reason, priority(job.priority), job.workers, job.attempt),
                *(iso(job.submitted), iso(job.changed), round(job.spent, 1)),
            )
            for job in found
        )
        yield csv_lines(rows)
        before = found[-1].seq


def csv_lines(rows: Iterable[Sequence[object]]) -> str:
    """Returns rows as lines of a CSV file, without formulas."""
    made = io.StringIO()
    csv.writer(made).writerows([[_safe(cell) for cell in row] for row in rows])
    return made.getvalue()


def _safe(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
