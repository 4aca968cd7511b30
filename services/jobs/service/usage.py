"""Reads what attempts use and have used, from the samples that their runners left, and finds GPUs that idle."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from sqlalchemy import or_, select

from dragoman.model.usage.points import MOST, Point, read_points
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import Attempt, Job
from dragoman.services.jobs.measures import MEASURES
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.curves import thinned
from dragoman.services.jobs.settings import IdleConfig
from dragoman.services.jobs.states import State

COUNTED = ("cpu", "read", "written", "machine_read", "machine_written", "machine_sent", "machine_received")
TOTALS = ("cpu", "read", "written")  # counted since the start of the attempt
MACHINES = 64  # of an attempt
HOUR = 3600.0  # seconds of the machines' curves
ATTEMPTS = 200  # newest ones that tell of machines
SILENT = 60.0  # seconds without a sample after which nothing is known
Curve = list[tuple[float, float]]  # seconds since 1970, value
Spans = list[tuple[float, float]]  # the first and the last sample of times without a silence


@dataclass
class Use:
    """The use on one machine, by the names of `MEASURES`: cores, bytes, bytes a second, percent."""

    curves: dict[str, Curve] = field(default_factory=dict)
    spans: Spans = field(default_factory=list)
    total: dict[str, float] = field(default_factory=dict)  # seconds of processors, bytes read and written
    at: float = 0.0  # of the last sample
    idle: int = 0  # GPUs of the job that idle then,
    idle_since: float | None = None  # and when the first of them began to

    @property
    def last(self) -> dict[str, float]:
        return {name: curve[-1][1] for name, curve in self.curves.items()}

    def pieces(self, name: str) -> list[Curve]:
        """Returns a curve, cut where nothing was measured."""
        pieces = ([point for point in self.curves.get(name, ()) if low <= point[0] <= high] for low, high in self.spans)
        return [piece for piece in pieces if piece]


def read_use(home: Path, job: str, attempt: int) -> dict[str, Use]:
    """Returns machine -> what the attempt used there; empty if it has not begun, or nobody sampled it."""
    stem = attempt_of(home, job, attempt).usage
    uses = {}
    for path in sorted(stem.parent.glob(f"{stem.name}-*"))[:MACHINES]:
        try:
            status = path.stat()
        except OSError:
            continue
        use = _read(path, status.st_ino, status.st_size, status.st_mtime_ns)
        if use.curves:
            uses[path.name.removeprefix(f"{stem.name}-")] = use
    return uses


def read_machines(home: Path, ledger: Ledger) -> dict[str, Use]:
    """Returns machine -> its last hour, as the jobs that ran on it have seen it."""
    since = ledger.now() - HOUR
    query = select(Attempt.job, Attempt.number).where(or_(Attempt.ended.is_(None), Attempt.ended > since))
    with ledger.database.read() as session:
        attempts = session.execute(query.order_by(Attempt.decided.desc()).limit(ATTEMPTS)).all()
    seen: dict[str, list[Use]] = {}
    for job, number in attempts:
        for host, use in read_use(home, job, number).items():
            if use.at > since:
                seen.setdefault(host, []).append(use)
    return {host: _machine(uses, since) for host, uses in sorted(seen.items())}


def _machine(uses: Sequence[Use], since: float) -> Use:
    curves: dict[str, Curve] = {}
    for use in uses:
        for name, curve in use.curves.items():
            if name.startswith("machine_"):
                curves.setdefault(name, []).extend(point for point in curve if point[0] > since)
    thin = {name: thinned(sorted(curve), MOST) for name, curve in curves.items() if curve}
    return Use(thin, _joined((span for use in uses for span in use.spans), SILENT), at=max(use.at for use in uses))


def _joined(spans: Iterable[tuple[float, float]], silence: float) -> Spans:
    """Returns the spans in their order; those less than a silence apart become one."""
    joined: Spans = []
    for low, high in sorted(spans):
        if joined and low - joined[-1][1] <= silence:
            low, high = joined[-1][0], max(high, joined.pop()[1])
        joined.append((low, high))
    return joined


@lru_cache(maxsize=512)
def _read(path: Path, *_: int) -> Use:
    """Returns the use that a file tells of; the numbers say whether it has changed."""
    points = read_points(path)
    curves = {name: list(_curve(points, name)) for name in MEASURES}
    total = {name: max((point[name] for point in points if name in point), default=0.0) for name in TOTALS}
    last = points[-1] if points else {"at": 0.0}
    idle = (int(last.get("idle", 0)), last.get("idle_since"))
    coarse = (last["at"] - points[0]["at"]) / (MOST / 8) if points else 0.0  # apart, at most, by `thin`
    spans = _joined(((point["at"], point["at"]) for point in points), max(SILENT, coarse))
    return Use({name: curve for name, curve in curves.items() if curve}, spans, total, last["at"], *idle)


def _curve(points: Sequence[Point], name: str) -> Iterable[tuple[float, float]]:
    """Yields the values; of what is counted, the amount a second since the point before."""
    measured = [point for point in points if name in point]
    if name not in COUNTED:
        yield from ((point["at"], point[name]) for point in measured)
        return
    for before, after in pairwise(measured):
        yield after["at"], max(0.0, after[name] - before[name]) / (after["at"] - before["at"])


@dataclass(frozen=True)
class Spell:
    """A time in which GPUs of a job idle. Its start is the same at every look, and so names it."""

    since: float  # seconds since 1970
    gpus: int  # that idle now


def idle_spell(home: Path, job: Job, now: float, config: IdleConfig) -> Spell | None:
    """Returns the spell of a running job; None if its GPUs work, or have idled for less than the minutes."""
    if job.state != State.RUNNING or not job.gpus:
        return None
    fresh = [use for use in read_use(home, job.id, job.attempt).values() if now - use.at < SILENT]
    since = min((use.idle_since for use in fresh if use.idle_since is not None), default=now)
    return Spell(since, sum(use.idle for use in fresh)) if now - since >= 60 * config.minutes else None
