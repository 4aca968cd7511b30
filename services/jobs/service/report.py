"""A job on one HTML page that works without a network: state, curves, attempts, changed settings, lineage, end of log.

There is no script; curves are SVG, drawn as on the pages. All text that others have written is escaped.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, Template

from dragoman.model.durations import duration
from dragoman.model.plural import plural
from dragoman.model.runs.paths import RECORD, RELEASE
from dragoman.model.text.excerpt import for_markup
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.client.table import clock, reason_beyond
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.charts import Journals, charts
from dragoman.services.jobs.service.curves import run_of
from dragoman.services.jobs.service.logs import clean
from dragoman.services.jobs.service.operations import Operations

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"  # of its answer
LOG_END = 20_000  # bytes
Rows = Iterable[Sequence[Any]]


def report(operations: Operations, person: Person, name: str) -> str:
    """Returns the page of a job. Raises UnknownJobError: there is no such job, or the person may not see it."""
    job = operations.job(person, name)
    plan, run_dir, home = job.plan or {}, run_of(job), operations.loop.home
    return for_markup(
        _template().render(
            job=job,
            plan=plan,
            log=clean(attempt_of(home, job.id, job.attempt).read_log(-LOG_END, LOG_END).decode("utf-8", "replace")),
            charts=charts({str(plan.get("run") or job.id): Journals().read(job)}),
            lineage=list(_lineage(run_dir, plan)),
            attempts=operations.ledger.attempts(name),
            changes=operations.changes(person, name),
            changed=sorted((plan.get("changed") or {}).items()),
        )
    )


def _lineage(run_dir: Path | None, plan: dict[str, Any]) -> Rows:
    yield "submission", f"sha256 {plan.get('fingerprint', '-')}"
    begun, released = (read_object(run_dir / name) if run_dir else {} for name in (RECORD, RELEASE))
    version = released.get("version")
    facts = {
        "shards": begun.get("shards") and f"manifest {begun['shards']}",
        "seed": begun.get("seed"),
        "MLflow run": released.get("run_id"),
        "model version": version and f"{released.get('model')} {version}",
        "score": released.get("bleu") or released.get("scores"),
    }
    yield from ((name, value) for name, value in facts.items() if value is not None)


@cache
def _template() -> Template:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"reason_beyond": reason_beyond, "clock": clock, "duration": duration, "plural": plural}
    made.filters["plain"] = lambda value: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return made.get_template("report.html")
