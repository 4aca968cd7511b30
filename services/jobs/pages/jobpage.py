"""The page of one job: its state and the reason, its attempts over time, its curves, its links, its log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.model.runs import paths
from dragoman.model.untrusted import open_regular, read_object
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.database import Attempt, Job
from dragoman.services.jobs.pages.charts import EDGE, Journal, charts
from dragoman.services.jobs.pages.site import Link, Page, PageContext, validated
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.curves import run_of, score_in, score_text
from dragoman.services.jobs.service.logs import PIECE, Piece, cut
from dragoman.services.jobs.service.schemas import PriorityRequest
from dragoman.services.jobs.states import ACTIVE, ENDED, PRIORITIES, QUEUED, State

BLOCK = 1 << 20  # bytes of a log that are sent at once
BARS = 40  # attempts in the drawing; the table has all of them
CHANGES = 200  # newest rows of the record of changes
PARENT = "tracking.parent="  # the word of a sweep's trial that names its parent run
DONE = {  # word of the address after an action -> its message
    "stop": "It is asked to stop.",
    "yield": "It is asked to make room: a checkpoint first, then it waits for its next turn.",
    "retry": "It is queued again.",
    "priority": "Its priority is changed.",
    "submit": "It is handed in.",
    "after": "The jobs that it comes after are changed.",
}


@dataclass(frozen=True)
class Segment:
    """A segment of a bar, 0 to EDGE."""

    start: float
    width: float
    outcome: str


@dataclass(frozen=True)
class Progress:
    """The progress of a training."""

    step: int
    steps: int
    left: float | None  # seconds of training, at the pace so far
    rate: float | None  # seconds per step


def overview(page: Page, name: str) -> dict[str, Any]:
    """Returns what the parts of a job's page show."""
    site, operations, person = page.site, page.operations, page.person
    job = page.job(name)
    attempts, now = operations.ledger.attempts(job.id), page.now
    plan = job.plan or {}
    journal = site.journals.read(job)
    notes = [*journal.notes, *operations.loop.notes(job)]
    return {
        "job": job,
        "plan": plan,
        "attempts": attempts,
        "bars": _bars(job, attempts, now),
        "why": operations.why(person, job.id) if operations.wait_of(job.id, job.state, job.attempt) else None,
        "progress": progress_of(job, journal),
        "charts": charts(journal),
        "links": _links(page, job, plan, notes),
        "notes": notes,
        "may": _may(person, job),
        "mistake": job.state == State.FAILED and (not attempts or attempts[-1].cause == "mistake"),  # in its settings
        "command": " ".join(["dragoman", job.verb, *job.words]),
        "error": operations.error(job),
        "ran": job.spent + (max(0.0, now - job.started) if job.started else 0.0),
        "changes": operations.changes(person, job.id)[-CHANGES:][::-1],
    }


def chosen_priority(page: Page) -> int:
    """Returns the priority in a form."""
    values = {"priority": page.text("priority") or "normal"}
    return PRIORITIES[validated(PriorityRequest, values, "=").priority]


def title(job: Job) -> str:
    """Returns the job's name, or else the verb and the model that it changes."""
    return job.name or f"{job.verb} {job.model}".strip()


def log_piece(site: PageContext, job: Job, attempt: int, before: int | None, after: int | None = None) -> Piece:
    """Returns the lines that end at byte `before` (None: the end) or begin at `after`."""
    path = attempt_of(site.home, job.id, attempt).log
    try:
        size = path.stat().st_size
        with open_regular(path) as file:
            end = size if before is None else min(before, size)
            start = min(after, size) if after is not None else max(0, end - PIECE)
            file.seek(start)
            block = file.read(PIECE if after is not None else end - start)
    except OSError:
        return Piece("", 0, 0, 0)
    if start and after is None:  # begin with a whole line
        first = block.find(b"\n") + 1
        start, block = start + first, block[first:]
    whole = before is not None or job.state in ENDED or attempt < job.attempt
    text, end = cut(block, start, whole and (after is None or len(block) < PIECE))
    return Piece(text, start, end, size)


def whole_log(site: PageContext, job: Job, attempt: int) -> Iterator[bytes]:
    """Yields the log as the command has written it; nothing if there is none."""
    start, files = 0, attempt_of(site.home, job.id, attempt)
    while block := files.read_log(start, BLOCK):
        start += len(block)
        yield block


def progress_of(job: Any, journal: Journal) -> Progress | None:
    """Returns how far a training is; None for other jobs."""
    steps, step = int((job.plan or {}).get("steps") or 0), int(journal.last.get("step", 0))
    if not steps or job.verb != "train":
        return None
    rate = journal.last["seconds"] / step if step and journal.last.get("seconds") else None
    left = (steps - step) * rate if rate and job.state in ACTIVE else None
    return Progress(min(step, steps), steps, left, rate)


def _bars(job: Job, attempts: Sequence[Attempt], now: float) -> list[Segment]:
    """Returns the attempts from the job's submission until now or its end."""
    newest = attempts[-BARS:]
    if not newest:
        return []
    first = job.submitted if len(newest) == len(attempts) else newest[0].decided
    last = job.changed if job.state in ENDED else now
    wide = max(last - first, 1.0)
    bars = []
    for attempt in newest:
        start = (attempt.decided - first) / wide * EDGE
        end = ((attempt.ended or last) - first) / wide * EDGE
        bars.append(Segment(round(start, 1), round(max(end - start, 4.0), 1), attempt.outcome or "running"))
    return bars


def _may(person: Person, job: Job) -> dict[str, bool]:
    """Returns the actions that the page offers; none to those who may not submit jobs."""
    submits = person.may("submitter")
    able = submits and person.sees(job.owner)
    return {
        "stop": able and job.state not in ENDED and job.state != State.STOPPING,
        "yield": able and job.state in (State.STARTING, State.RUNNING),
        "retry": able and job.state in ENDED,
        "priority": able and job.state not in ENDED,
        "after": able and job.state in QUEUED,
        "remove": able and job.state in ENDED,
        "again": submits,
    }


def _links(page: Page, job: Job, plan: dict[str, Any], notes: list[str]) -> list[Link]:
    """Returns links to the MLflow run, the shards, the model version and back. Adds the files' faults to `notes`."""
    run = run_of(job)
    tracked, begun, released = (
        read_object(run / name, notes) if run else {} for name in (paths.TRACKED, paths.RECORD, paths.RELEASE)
    )
    links = []
    if run and tracked.get("run_id"):
        address = page.site.tracking.run_page(str(tracked["run_id"]))
        links.append(Link("MLflow run", run.name, address, outside=True))
    above = next((word.removeprefix(PARENT) for word in job.words if word.startswith(PARENT)), "")
    if above:
        links.append(Link("Sweep", f"all trials of {title(job).rpartition('-')[0] or above}", f"/?sweep={above}"))
    if digest := str(released.get("manifest_hash") or begun.get("shards") or ""):
        links.append(Link("Shards", f"manifest {digest[:12]}"))
    elif job.verb == "shard" and job.run:
        links.append(Link("Shards", job.run.partition(" ")[2]))
    if released.get("version"):
        name, number = str(released.get("model")), str(released["version"])
        address = page.site.tracking.version_page(name, number)
        links.append(Link("Model version", f"{name} {number}", address, outside=True))
    elif job.model and job.verb != "train":  # promote, rollback
        links.append(Link("Model", job.model))
    if score := score_text(*score_in(released)):
        links.append(Link("Score", score))
    if plan.get("fingerprint"):
        links.append(Link("Submission", f"sha256 {plan['fingerprint'][:12]}"))
    return [*links, *(Link("After", other, f"/jobs/{other}") for other in job.after)]
