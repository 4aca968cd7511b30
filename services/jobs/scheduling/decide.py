"""One pass of the scheduler: a pure function of jobs, cluster, quotas, rules (with the owners' usage) and time.

Owners that hold less than their fair share of the cluster come first, then jobs of higher priority, then the owner with
the smaller share, then the older job. A job starts if its owner's quota and the free resources allow it; an elastic job
starts with its smallest number of workers and gets what is left when all others have had their turn.

The first job that does not fit, and the first that needs GPUs and does not fit, make jobs of lower priority yield, and
keep room on the nodes that will have it soonest: jobs behind them start only where they do not delay them. An owner's
quota is kept for the owner's first job that exceeds it in the same way. So no job waits forever: what it needs is kept
for it, the jobs before it end, and owners who use more than their share fall behind.
"""

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from dragoman.services.jobs.scheduling.entries import Capacity, Entry, Kind, Outcome, Rules, Start, Stop, Wait, Yield
from dragoman.services.jobs.scheduling.preempt import choose_victims
from dragoman.services.jobs.scheduling.room import TINY, FreeResources, Needs, Placed
from dragoman.services.jobs.scheduling.shares import QuotasLeft, Shares
from dragoman.services.jobs.states import Quota, State

NO_RULES = Rules()
NO_DRIVER = Wait("drivers", needed=1)
NO_TURN = ("after", "never")  # kinds of waits of jobs that hold up no others


def decide(
    jobs: Iterable[Entry],
    capacity: Capacity,
    now: float,
    quotas: Mapping[str, Quota] | None = None,
    rules: Rules = NO_RULES,
) -> Outcome:
    """Returns the jobs to start, to ask to yield and to stop, and why each of the rest waits."""
    return _Pass(list(jobs), capacity, now, quotas or {}, rules).run()


class _Pass:
    """The state of a pass."""

    def __init__(
        self, jobs: list[Entry], capacity: Capacity, now: float, quotas: Mapping[str, Quota], rules: Rules
    ) -> None:
        # large workers first, as Ray places them
        active = sorted((job for job in jobs if job.active), key=lambda job: (-job.needs.gpus, -job.needs.cpus, job.id))
        waiting = [job for job in jobs if job.state == State.WAITING]
        self.active, self.waiting, self.now, self.rules = active, waiting, now, rules
        self.drivers = capacity.drivers - len(active)
        self.shares = Shares(rules, capacity, [*active, *(job for job in waiting if not job.blocked)])
        self.quotas = QuotasLeft(quotas)
        self.whole, self.room = FreeResources(capacity.nodes), FreeResources(capacity.nodes)
        self.placed: dict[str, Placed] = {}
        self.runs: dict[str, str] = {}
        self.begun: list[tuple[Entry, int]] = []  # jobs that this pass starts, and their workers
        self.decisions: list[Start | Yield | Stop] = []
        self.waits: dict[str, Wait] = {}
        self.claims: dict[bool, str] = {}  # whether GPUs are needed -> the job that room is kept for
        self.possible: dict[Needs, bool] = {}  # whether a size fits into the empty cluster
        self.refused: dict[Needs, Wait] = {}  # sizes that do not fit: nothing becomes free within a pass
        for job in active:
            self._count(job, job.workers)
            self.placed[job.id] = self.room.hold(job.needs, job.workers)
        self.free = self.room.copy()  # with what is kept for others

    def run(self) -> Outcome:
        self._stop_overdue()
        ahead = 0
        for job in self._turns():
            wait = self._give_turn(job)
            if wait is not None:
                turn = wait.kind not in NO_TURN
                self.waits[job.id] = Wait(*wait[:-1], ahead) if turn else wait
                ahead += turn
        self.waits |= {job.id: Wait("after", behind=job.blocked) for job in self.waiting if job.blocked}
        self._grow()
        starts = [Start(job.id, workers, f"{_size(job.needs, workers)} free") for job, workers in self.begun]
        return Outcome((*self.decisions, *starts), self.waits)

    def _stop_overdue(self) -> None:
        overdue = set[str]()
        for job in self.active:
            if job.most is not None and job.state != State.STOPPING and self.now - job.started >= job.most:
                self.decisions.append(Stop(job.id, f"has run for {job.most / 3600:g} h, as long as it may"))
                overdue.add(job.id)
        self._mark(overdue, State.STOPPING)

    def _turns(self) -> Iterator[Entry]:
        """Yields the waiting jobs in turn; shares may grow between two of them."""
        queues: dict[str, deque[Entry]] = {}
        for job in sorted(self.waiting, key=lambda job: (-job.priority, job.age, job.id)):
            if not job.blocked:
                queues.setdefault(job.owner, deque()).append(job)

        def turn(owner: str) -> tuple[bool, int, float, int, str, str]:
            job = queues[owner][0]
            exceeded, share = self.shares.of(owner)
            return exceeded, -job.priority, share, job.age, job.id, owner

        heads = [turn(owner) for owner in queues]
        heapq.heapify(heads)
        while heads:
            owner = heads[0][-1]
            yield queues[owner].popleft()
            if queues[owner]:
                heapq.heapreplace(heads, turn(owner))
            else:
                heapq.heappop(heads)

    def _give_turn(self, job: Entry) -> Wait | None:
        """Starts the job, or returns why it waits."""
        if job.run and job.run in self.runs:
            return Wait("run", behind=self.runs[job.run])
        if job.needs not in self.possible:
            self.possible[job.needs] = self.whole.fits(job.needs)
        if not self.possible[job.needs]:
            return _short("never", job.needs, self.whole)
        if self.drivers <= 0:
            return NO_DRIVER
        wait = self.quotas.lacks(job)
        if wait is not None:
            return wait
        workers = job.needs.choices[0]
        if job.needs in self.refused or not self.room.fits(job.needs):
            return self._hold_back(job)
        self._take(job, self.room.take(job.needs, workers))
        self._count(job, workers)
        self.shares.start(job.owner, *job.needs.total(workers))
        self.begun.append((job, workers))
        self.drivers -= 1
        return None

    def _hold_back(self, job: Entry) -> Wait:
        """Handles a job that does not fit: others make room for it, or it waits behind the one that does not either."""
        kind = job.needs.gpus > 0
        if kind not in self.claims:
            self.claims[kind] = job.id
            return self._make_room(job)
        if job.needs not in self.refused:
            fits = self.free.fits(job.needs)
            wait = _short("reserved", job.needs, self.free) if fits else self._lacks(job.needs)
            self.refused[job.needs] = wait._replace(behind=self.claims[kind])
        return self.refused[job.needs]

    def _make_room(self, job: Entry) -> Wait:
        """Asks jobs of lower priority to yield, if that is enough, and keeps what becomes free."""
        candidates = [entry for entry in self.active if entry.ending or self._may_displace(job, entry)]
        victims = choose_victims(job, candidates, self.room, self.placed, self.now, self.rules.preempt_after)
        after = self.room.copy()
        ending = (entry for entry in self.active if entry.ending)
        for entry in {entry.id: entry for entry in (*victims.jobs, *ending)}.values():
            after.give(self.placed[entry.id])
        wait = self._lacks(job.needs)
        if victims.jobs:
            names = ", ".join(sorted(victim.id for victim in victims.jobs))
            kind: Kind = "preempting" if victims.at <= self.now else "ripening"
            wait = _short(kind, job.needs, self.room)._replace(behind=names)
        if victims.at <= self.now:
            asked = [victim.id for victim in victims.jobs if victim.state != State.YIELDING]
            self.decisions += [Yield(victim, f"makes room for {job.id}, of higher priority") for victim in asked]
            self._mark(asked, State.YIELDING)
        self.room.claim(job.needs, after, self.whole)
        return wait

    def _mark(self, names: Collection[str], state: State) -> None:
        """Counts jobs that this pass asks to end as ending, so that nothing later in the pass asks them again."""
        self.active = [replace(job, state=state) if job.id in names else job for job in self.active]

    def _may_displace(self, job: Entry, other: Entry) -> bool:
        """Returns True if `other` may yield to a job of higher priority.

        An owner's share is theirs whatever the priority of others' jobs, but for jobs that they gave a low one."""
        if other.owner == job.owner:
            return True
        return not self.shares.exceeded(job.owner) and (other.priority < 0 or self.shares.exceeded(other.owner))

    def _grow(self) -> None:
        """Gives elastic jobs that this pass starts what is left, in their order."""
        for at, (job, workers) in enumerate(self.begun):
            most = self.quotas.workers(job, job.needs.choices[-1] - workers)
            most = workers + self.room.holds(job.needs.cpus, job.needs.gpus, most)
            more = next(choice for choice in reversed(job.needs.choices) if choice <= most) - workers
            if more:
                self._take(job, self.room.take(job.needs, more))
                self.quotas.take(job.owner, job.needs, more, jobs=0)
                self.begun[at] = job, workers + more

    def _count(self, job: Entry, workers: int) -> None:
        """Counts a job that runs or starts."""
        self.quotas.take(job.owner, job.needs, workers)
        if job.run:
            self.runs[job.run] = job.id

    def _take(self, job: Entry, placed: Placed) -> None:
        self.placed.setdefault(job.id, []).extend(placed)
        for node, cpus, gpus in placed:
            self.free.free[node][0] -= cpus
            self.free.free[node][1] -= gpus

    def _lacks(self, needs: Needs) -> Wait:
        """Returns the resource that is short; the main one, if there is enough in total, but not on any one node."""
        cpus, gpus = needs.total(needs.choices[0])
        few = gpus <= self.free.gpus + TINY and cpus > self.free.cpus + TINY  # there are enough GPUs, and too few CPUs
        return _short("room", Needs(needs.choices, needs.cpus) if few else needs, self.free)


def _short(kind: Kind, needs: Needs, room: FreeResources) -> Wait:
    """Returns a wait for GPUs, or CPUs if none are needed."""
    cpus, gpus = needs.total(needs.choices[0])
    return Wait(kind, *(("GPU", gpus, room.gpus) if gpus else ("CPU", cpus, room.cpus)))


def _size(needs: Needs, workers: int) -> str:
    cpus, gpus = needs.total(workers)
    amounts = [f"{amount:g} {name}{'s' * (amount != 1)}" for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount]
    return ", ".join(amounts) or "what it needs"
