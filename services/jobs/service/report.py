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
from dragoman.model.untrusted import open_regular, read_object
from dragoman.services.jobs.client.table import clock, reason_beyond
from dragoman.services.jobs.ledger.tables import Attempt, Job
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.charts import Journals, charts
from dragoman.services.jobs.service.curves import run_of
from dragoman.services.jobs.service.logs import clean
from dragoman.services.jobs.service.schemas import ChangeView

LOG_END = 20_000  # bytes
SHORT = frozenset({"attempt", "workers", "started", "took", "outcome", "when", "by", "state"})  # not to be broken
Rows = Iterable[Sequence[Any]]


def report(job: Job, attempts: Sequence[Attempt], changes: Sequence[ChangeView], home: Path) -> str:
    plan, run_dir = job.plan or {}, run_of(job)
    return for_markup(
        _template().render(
            job=job,
            plan=plan,
            short=SHORT,
            log=_log(job, home),
            charts=charts({str(plan.get("run") or job.id): Journals().read(str(run_dir) if run_dir else None)}),
            about=list(_facts(job, plan)),
            lineage=list(_lineage(run_dir, plan)),
            attempts=list(map(_attempt, attempts)),
            changes=list(map(_change, changes)),
            changed=sorted((plan.get("changed") or {}).items()),
        )
    )


def _facts(job: Job, plan: dict[str, Any]) -> Rows:
    yield "job", f"{job.id}, of {job.owner}"
    yield "command", " ".join(["dragoman", job.verb, *job.words])
    yield "submitted", clock(job.submitted)
    yield "ran for", duration(job.spent)
    if plan.get("steps"):
        yield "work", f"{plan['steps']:,} steps, {plan['tokens']:,} tokens, {plan['flops']:.3g} operations"
        yield "network", f"{plan['parameters']:,} parameters, about {plan['memory'] / 2**20:,.0f} MiB a worker"
    for workers, estimate in (plan.get("seconds") or {}).items():
        span = f"{duration(estimate['low'])} to {duration(estimate['high'])}, from {estimate['basis']}"
        yield f"on {plural(int(workers), 'worker')}", f"{duration(estimate['expected'])} expected ({span})"


def _attempt(attempt: Attempt) -> Sequence[Any]:
    took = duration(attempt.ended - (attempt.started or attempt.decided)) if attempt.ended else "-"
    lost = f"{attempt.lost_tokens:,} tokens, {duration(attempt.lost_seconds)}" if attempt.lost_tokens else ""
    if attempt.startup and attempt.outcome not in (None, "succeeded"):
        lost = "; ".join([*([lost] if lost else []), f"start-up of {duration(attempt.startup)}"])
    message = reason_beyond(attempt.outcome or "", attempt.message)
    why = f"{attempt.cause or ''}: {message}" if message else ""
    return attempt.number, attempt.workers, clock(attempt.started), took, attempt.outcome or "runs", why, lost


def _change(change: ChangeView) -> Sequence[Any]:
    return (
        clock(change.at),
        change.actor,
        change.after if change.action == "state" else f"{change.action} {change.after or ''}",
        reason_beyond(change.after or change.action, change.reason),
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


def _log(job: Job, home: Path) -> str | None:
    path = attempt_of(home, job.id, job.attempt).log
    try:
        with open_regular(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_END))
            return clean(file.read(LOG_END).decode("utf-8", "replace"))
    except OSError:
        return None


@cache
def _template() -> Template:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["reason_beyond"] = lambda reason, state: reason_beyond(state, reason)
    made.filters["plain"] = lambda value: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return made.get_template("report.html")
