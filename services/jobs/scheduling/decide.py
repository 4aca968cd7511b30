"""One pass of the scheduler: a pure function of jobs, quotas, capacity, rules (with the owners' usage) and time.

Quotas and shares are of accounts: of the project that a job belongs to, or of its owner if it has none.

Jobs come by priority, then by their owner's share, then by age. Each starts if its owner's quota and the free resources
allow it; an elastic job gets as many workers as fit. The first that does not fit may make jobs of lower priority yield.
If that is not enough it gets a reservation: the time when enough of the running jobs will have ended. Later jobs start
only if they end before that time, or use only what the head leaves even then (EASY back-filling, Lifka 1995). The first
of an owner's jobs that exceeds the owner's quota gets such a reservation within the quota, and the owner's younger jobs
are back-filled around it.

No job waits forever: one that has waited longer than the rules' patience comes first, one such job at a time. If it
does not fit, only jobs that end before its reservation are back-filled.

A pass over many waiting jobs is short because a job that does not fit once does not fit later in the same pass: refused
sizes are remembered, and `decide_queue` skips whole groups of jobs that cannot start any more.
"""

from collections.abc import Mapping
from dataclasses import replace

from dragoman.services.jobs.scheduling.allowance import Allowances
from dragoman.services.jobs.scheduling.entries import (
    Capacity,
    Entry,
    Kind,
    Outcome,
    Reservation,
    Start,
    Stop,
    Wait,
    Yield,
)
from dragoman.services.jobs.scheduling.preempt import Placed, choose_victims
from dragoman.services.jobs.scheduling.queue import Queue, turn
from dragoman.services.jobs.scheduling.room import TINY, FreeResources, Needs
from dragoman.services.jobs.scheduling.rules import Rules, Shares
from dragoman.services.jobs.states import Quota, State

NO_RULES = Rules()


def decide_queue(
    queue: Queue,
    quotas: Mapping[str, Quota],
    capacity: Capacity,
    now: float,
    rules: Rules = NO_RULES,
    waits_for: Entry | None = None,
    every: bool = False,
) -> Outcome:
    """Returns the jobs to start, to ask to yield and to stop, and why some of the rest wait, surely `waits_for`.

    Not every job is visited; with `every` all are, and get a reason.
    """
    pass_ = _Pass(queue, quotas, capacity, now, rules)
    walk = queue.walk(pass_.shares.of, pass_.allowances.open)
    first = pass_.overdue_wait()
    if first is not None:
        pass_.give_turn(first)
        waits_for = None if waits_for is not None and waits_for.id == first.id else waits_for
    while (job := walk.next()) is not None:
        if first is not None and job.id == first.id:
            continue
        if waits_for is not None and turn(job, pass_.shares.of) >= turn(waits_for, pass_.shares.of):
            reserved, waits_for = waits_for, None
            if job.id != reserved.id:  # it was skipped
                pass_.give_turn(reserved)
        wait = pass_.give_turn(job)
        if every or wait is None or wait.kind == "run":
            continue
        if wait.kind == "drivers":
            break
        group = (job.account, job.needs)
        if wait.kind == "held":
            walk.keep_short(group, now, pass_.allowances.kept[job.account].at)
        elif wait.kind == "reserved" and pass_.reservation is not None:
            walk.keep_short(job.needs, now, pass_.reservation.at)
        else:
            if wait.kind in ("quota", "never"):
                walk.close(group)
            if wait.kind != "quota":
                walk.close(job.needs)
    blocked = [job for job in queue.jobs.values() if job.blocked and job.state == State.WAITING] if every else []
    for job in [*blocked, *([waits_for] if waits_for is not None else [])]:
        pass_.give_turn(job)
    return pass_.outcome()


class _Pass:
    """The state of a pass."""

    def __init__(self, queue: Queue, quotas: Mapping[str, Quota], capacity: Capacity, now: float, rules: Rules) -> None:
        # Large workers first, as the placing scheduler must have done.
        active = sorted(queue.active.values(), key=lambda job: (-job.needs.gpus, -job.needs.cpus, job.id))
        self.queue, self.active, self.capacity, self.now, self.rules = queue, active, capacity, now, rules
        self.shares, self.allowances = Shares(rules, capacity, active, now), Allowances(quotas, now)
        self.begun: list[Entry] = []  # started by this pass
        self.decisions: list[Start | Yield] = []
        self.waits: dict[str, Wait] = {}
        self.reservation: Reservation | None = None
        self.empty, self.room = FreeResources(capacity.nodes), FreeResources(capacity.nodes)
        self.later = self.room  # what the head leaves free at its start
        self.first = ""  # the job that has waited too long
        self.placed: dict[str, Placed] = {}
        self.runs: dict[str, str] = {}
        self.refused: dict[tuple[Needs, str], Wait] = {}
        self.possible: dict[Needs, bool] = {}
        for job in active:
            self.allowances.hold(job.account, job.needs, job.workers)
            self._hold(job, job.workers)

    def outcome(self) -> Outcome:
        return Outcome((*self.overdue(), *self.decisions), self.waits, self.reservation, self.first)

    def overdue_wait(self) -> Entry | None:
        """Returns the job that has waited longest, if longer than the rules' patience and if it could ever start.

        Returns None while a job runs that had waited too long before it, so that many of them do not take the whole
        cluster from those of higher priority.
        """
        patience = self.rules.patience
        if patience is None:
            return None
        for job in self.queue.longest(self.now - patience):
            if (job.run and job.run in self.runs) or not self.allowances.possible(job):
                continue
            if not self._possible(job.needs):
                continue
            if any(entry.since <= job.since and entry.started - entry.since >= patience for entry in self.active):
                return None
            self.first = job.id
            return job
        return None

    def give_turn(self, job: Entry) -> Wait | None:
        """Starts the job, or notes why it waits."""
        wait = self.consider(job)
        if wait is not None:
            self.waits[job.id] = wait
        return wait

    def consider(self, job: Entry) -> Wait | None:
        """Starts the job, or returns why it waits."""
        if job.blocked:
            return Wait("after", behind=job.blocked)
        if job.run and job.run in self.runs:
            return Wait("run", behind=self.runs[job.run])
        if not self._possible(job.needs):
            return _short("never", job.needs, self.empty)
        if len(self.placed) >= self.capacity.drivers:
            return Wait("drivers", needed=1, free=0)
        wait = self._try(job)
        if wait is None:
            return None
        head = self.reservation is not None and self.reservation.job == job.id
        if head or self.allowances.open(job.account):
            # Otherwise a younger job of its owner would take the head's quota, and with it its reservation.
            until = self.now if self.reservation is None else self.reservation.at
            self.allowances.keep(job, until, head or job.id == self.first, self._leaving)
        return wait

    def _try(self, job: Entry) -> Wait | None:
        """Starts the job if there is enough for it."""
        most, wait = self.allowances.most(job)
        if wait is not None:
            return wait
        workers = _largest(job.needs.choices, self.room.holds(job.needs.cpus, job.needs.gpus, most))
        if self.reservation is not None:
            return self._fill(job, workers)
        if not workers:
            return self._head(job)
        self._start(job, workers)
        return None

    def overdue(self) -> list[Stop]:
        """Returns the active jobs whose time is over."""
        return [
            Stop(job.id, f"has run for {job.most / 3600:g} h, as long as it may")
            for job in self.queue.active.values()
            if job.most is not None and job.state != State.STOPPING and self.now - job.started >= job.most
        ]

    def _fill(self, job: Entry, workers: int) -> Wait | None:
        """Starts a job behind the head only if it delays no reservation."""
        assert self.reservation is not None
        refusal = self.refused.get((job.needs, "fill" if self.now + job.high > self.reservation.at else "short"))
        if refusal is not None:
            return refusal
        if not workers:
            wait = self._lacks(job.needs, self.reservation.job)
            self.refused[(job.needs, "fill")] = self.refused[(job.needs, "short")] = wait
            return wait
        if self.now + job.high <= self.reservation.at:
            self._start(job, workers)
            return None
        both = min(workers, self.later.holds(job.needs.cpus, job.needs.gpus, workers))
        workers = 0 if self.reservation.strict else _largest(job.needs.choices, both)
        if workers:
            self.later.take(job.needs, workers)
            self._start(job, workers)
            return None
        wait = _short("reserved", job.needs, self.room, self.reservation.job)
        self.refused[(job.needs, "fill")] = wait
        return wait

    def _head(self, job: Entry) -> Wait:
        """Handles the first job that does not fit: others yield to it, or it gets a reservation."""
        victims = choose_victims(job, self.active, self.room, self.placed, self.now, self.rules.preempt_after)
        if victims.at <= self.now:
            for victim in victims.jobs:
                if victim.state != State.YIELDING:
                    self.decisions.append(Yield(victim.id, f"makes room for {job.id}, of higher priority"))
        room, at = self.room.copy(), self.now
        for moment, entry in self._leaving({victim.id: victims.at for victim in victims.jobs}):
            if room.fits(job.needs):
                break
            room.give(self.placed[entry.id])
            at = moment
        room.take(job.needs, job.needs.choices[0])
        strict = job.id == self.first
        self.reservation, self.later = Reservation(job.id, at, strict), room
        if victims.jobs:
            kind: Kind = "preempting" if victims.at <= self.now else "ripening"
            return _short(kind, job.needs, self.room, ", ".join(sorted(victim.id for victim in victims.jobs)))
        return self._lacks(job.needs, "")

    def _leaving(self, times: Mapping[str, float] | None = None) -> list[tuple[float, Entry]]:
        """Returns when each running job will have ended, in that order; `times`: when jobs are asked to yield."""
        yields = times or {}
        running = (*self.active, *self.begun)
        leaving = ((entry.leaves(self.now, entry.high, yields.get(entry.id)), entry) for entry in running)
        return sorted(leaving, key=lambda pair: (pair[0], pair[1].id))

    def _start(self, job: Entry, workers: int) -> None:
        cpus, gpus = job.needs.total(workers)
        size = ", ".join(f"{amount:g} {name}s" for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount)
        filled = f", filled in before {self.reservation.job}" if self.reservation else ""
        waited = ", first because it has waited for so long" if job.id == self.first else ""
        self.decisions.append(Start(job.id, workers, f"{size or 'what it needs'} free{filled}{waited}"))
        self.begun.append(replace(job, state=State.RUNNING, workers=workers, started=self.now))
        self.allowances.start(job, workers)
        self.shares.start(job, workers)
        self._hold(job, workers)

    def _hold(self, job: Entry, workers: int) -> None:
        self.placed[job.id] = self.room.hold(job.needs, workers)
        if job.run:
            self.runs[job.run] = job.id

    def _possible(self, needs: Needs) -> bool:
        """Returns True if the empty cluster is enough."""
        if needs not in self.possible:
            self.possible[needs] = self.empty.fits(needs)
        return self.possible[needs]

    def _lacks(self, needs: Needs, behind: str) -> Wait:
        """Returns the resource that is short; the main one, if there is enough in total, but not on any one node."""
        cpus, gpus = needs.total(needs.choices[0])
        few = gpus <= self.room.gpus + TINY and cpus > self.room.cpus + TINY  # there are enough GPUs, and too few CPUs
        return _short("room", Needs(needs.choices, needs.cpus) if few else needs, self.room, behind)


def _largest(choices: tuple[int, ...], most: int) -> int:
    """Returns the largest of the ascending `choices` that is at most `most`; 0: none."""
    return next((choice for choice in reversed(choices) if choice <= most), 0)


def _short(kind: Kind, needs: Needs, room: FreeResources, behind: str = "") -> Wait:
    """Returns a wait for GPUs, or CPUs if none are needed."""
    cpus, gpus = needs.total(needs.choices[0])
    amounts = ("GPU", gpus, room.gpus) if gpus else ("CPU", cpus, room.cpus)
    return Wait(kind, *amounts, behind)
