"""One pass of the scheduler: a pure function of jobs, quotas, capacity and time.

Jobs are looked at by priority, then age. Each starts where its owner's quota and what is free allow it, an elastic one
on as many workers as that is. The first that finds no room may have jobs of lower priority yield to it; where that is
not enough it gets a reservation: the moment at which enough of what runs will have ended. Those behind it are filled in
only where they end before that moment, or use what the head leaves even then (EASY back-filling, Lifka 1995).

A pass over many waiting jobs is short because what does not fit once does not fit later in the same pass: sizes that
were refused are remembered, and `decide_queue` leaves out whole groups of jobs that nothing can start any more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from services.jobs.scheduling.entries import Capacity, Entry, Outcome, Quota, Reservation, Start, Stop, Wait, Yield
from services.jobs.scheduling.queue import Queue, place
from services.jobs.scheduling.room import Needs, Room
from services.jobs.states import State

Placed = list[tuple[int, float, float]]
YIELD_SECONDS = 60.0  # that a job is taken to need for its checkpoint when it is asked to yield


def order(jobs: Iterable[Entry]) -> list[Entry]:
    """Waiting jobs by their turn."""
    return sorted((job for job in jobs if job.state == State.WAITING), key=place)


def decide(jobs: Iterable[Entry], quotas: Mapping[str, Quota], capacity: Capacity, now: float) -> Outcome:
    """What to start, what to ask to yield, what to stop, and why each of the rest waits."""
    everything = list(jobs)
    one = _Pass([job for job in everything if job.active], quotas, capacity, now)
    for job in order(everything):
        one.give_turn(job)
    return one.outcome()


def decide_queue(
    queue: Queue, quotas: Mapping[str, Quota], capacity: Capacity, now: float, asked: Entry | None = None
) -> Outcome:
    """The same decisions without looking at every job. Why jobs wait is told of some of them, of `asked` surely."""
    one = _Pass(list(queue.active.values()), quotas, capacity, now)
    walk = queue.walk()
    while (job := walk.next()) is not None:
        if asked is not None and place(job) >= place(asked):
            one.give_turn(asked)
            if job.id == asked.id:
                asked = None
                continue
            asked = None
        wait = one.give_turn(job)
        if wait is None or wait.kind == "run":
            continue
        if wait.kind == "drivers":
            break
        if wait.kind == "reserved" and one.reservation is not None:
            walk.keep_short(job.needs, now, one.reservation.at)
        else:
            walk.close((job.owner, job.needs) if wait.kind == "quota" else job.needs)
    if asked is not None:
        one.give_turn(asked)
    return one.outcome()


class _Pass:
    """What is known so far in a pass."""

    def __init__(self, active: list[Entry], quotas: Mapping[str, Quota], capacity: Capacity, now: float) -> None:
        self.active, self.quotas, self.capacity, self.now = active, quotas, capacity, now
        self.begun: list[Entry] = []  # by this pass
        self.decisions: list[Start | Yield] = []
        self.waits: dict[str, Wait] = {}
        self.reservation: Reservation | None = None
        self.empty, self.room = Room(capacity.nodes), Room(capacity.nodes)
        self.later = self.room  # what the head leaves free when its turn has come
        self.placed: dict[str, Placed] = {}
        self.used: dict[str, list[float]] = {}
        self.runs: dict[str, str] = {}
        self.refused: dict[tuple[Needs, str], Wait] = {}
        self.possible: dict[Needs, int] = {}
        # Large workers first, as whoever placed them would have had to.
        for job in sorted(active, key=lambda job: (-job.needs.gpus, -job.needs.cpus, job.id)):
            self._hold(job, job.workers)

    def outcome(self) -> Outcome:
        return Outcome((*self.overdue(), *self.decisions), self.waits, self.reservation)

    def give_turn(self, job: Entry) -> Wait | None:
        """Start the job, or note why it waits."""
        wait = self.consider(job)
        if wait is not None:
            self.waits[job.id] = wait
        return wait

    def consider(self, job: Entry) -> Wait | None:
        """Start the job, or say why it waits."""
        if job.blocked:
            return Wait("after", behind=job.blocked)
        if job.run and job.run in self.runs:
            return Wait("run", behind=self.runs[job.run])
        needs = job.needs
        if self._possible(needs) < needs.choices[0]:
            resource, wanted = _main_resource(needs, needs.choices[0])
            return Wait("never", resource, wanted, _of(resource, self.empty))
        most, quota = self._within_quota(job)
        if quota is not None:
            return quota
        if len(self.placed) >= self.capacity.drivers:
            return Wait("drivers", needed=1, free=0)
        fits = self.room.holds(needs.cpus, needs.gpus, most)
        workers = _largest(needs.choices, fits)
        if self.reservation is None:
            if workers:
                self._start(job, workers)
                return None
            return self._head(job)
        return self._fill(job, workers)

    def overdue(self) -> list[Stop]:
        """Active jobs whose time is over."""
        return [
            Stop(job.id, f"has run for {job.most / 3600:g} h, as long as it may")
            for job in self.active
            if job.most is not None and job.state != State.STOPPING and self.now - job.started >= job.most
        ]

    def _fill(self, job: Entry, workers: int) -> Wait | None:
        """A job behind the head: only where it delays nothing that was promised."""
        assert self.reservation is not None
        known = self.refused.get((job.needs, "fill" if self.now + job.high > self.reservation.at else "short"))
        if known is not None:
            return known
        if not workers:
            wait = self._lacks(job.needs, self.reservation.job)
            self.refused[(job.needs, "fill")] = self.refused[(job.needs, "short")] = wait
            return wait
        if self.now + job.high <= self.reservation.at:
            self._start(job, workers)
            return None
        both = min(workers, self.later.holds(job.needs.cpus, job.needs.gpus, workers))
        workers = _largest(job.needs.choices, both)
        if workers:
            self.later.take(job.needs, workers)
            self._start(job, workers)
            return None
        resource, wanted = _main_resource(job.needs, job.needs.choices[0])
        wait = Wait("reserved", resource, wanted, _of(resource, self.room), self.reservation.job)
        self.refused[(job.needs, "fill")] = wait
        return wait

    def _head(self, job: Entry) -> Wait:
        """The first that finds no room: others yield to it, or it is promised a moment."""
        victims = self._victims(job)
        for victim in victims:
            if victim.state != State.YIELDING:
                self.decisions.append(Yield(victim.id, f"makes room for {job.id}, of higher priority"))
        asked = {victim.id for victim in victims}
        room, at = self.room.copy(), self.now

        def leaves(one: Entry) -> float:
            going = one.id in asked or one.state in (State.YIELDING, State.STOPPING)
            end = one.ends(self.now, one.high)
            return min(self.now + YIELD_SECONDS, end) if going else end

        for one in sorted((*self.active, *self.begun), key=lambda one: (leaves(one), one.id)):
            if room.holds(job.needs.cpus, job.needs.gpus, job.needs.choices[0]) >= job.needs.choices[0]:
                break
            room.give(self.placed[one.id])
            at = leaves(one)
        room.take(job.needs, job.needs.choices[0])
        self.reservation, self.later = Reservation(job.id, at), room
        if victims:
            resource, wanted = _main_resource(job.needs, job.needs.choices[0])
            return Wait("preempting", resource, wanted, _of(resource, self.room), ", ".join(sorted(asked)))
        return self._lacks(job.needs, "")

    def _victims(self, job: Entry) -> list[Entry]:
        """The fewest of the least important that make room for it; none where all of them would not."""
        smallest = job.needs.choices[0]
        room, chosen = self.room.copy(), list[Entry]()
        # what goes anyway comes first; then the lowest priority, and of those what has run least
        lower = sorted(
            (one for one in self.active if one.state in (State.YIELDING, State.STOPPING) or self._below(one, job)),
            key=lambda one: (one.state not in (State.YIELDING, State.STOPPING), one.priority, -one.started, one.id),
        )
        for one in lower:
            if room.holds(job.needs.cpus, job.needs.gpus, smallest) >= smallest:
                break
            room.give(self.placed[one.id])
            chosen.append(one)
        if room.holds(job.needs.cpus, job.needs.gpus, smallest) < smallest:
            return []
        for one in list(chosen):  # whoever is not needed after all stays
            without = self.room.copy()
            for other in chosen:
                if other is not one:
                    without.give(self.placed[other.id])
            if without.holds(job.needs.cpus, job.needs.gpus, smallest) >= smallest:
                chosen.remove(one)
        return [one for one in chosen if one.state != State.STOPPING]

    def _below(self, one: Entry, job: Entry) -> bool:
        return one.priority < job.priority and one.yields and one.state == State.RUNNING

    def _within_quota(self, job: Entry) -> tuple[int, Wait | None]:
        """The most workers that the owner's quota allows, and why it is none."""
        most = job.needs.choices[-1]
        quota = self.quotas.get(job.owner)
        if quota is None:
            return most, None
        used = self.used.get(job.owner, [0.0, 0.0])
        sizes = (("CPU", quota.cpus, used[0], job.needs.cpus), ("GPU", quota.gpus, used[1], job.needs.gpus))
        for resource, bound, taken, each in sizes:
            if bound is None or each <= 0:
                continue
            allowed = int((bound - taken + 1e-9) / each)
            if allowed < job.needs.choices[0]:
                return 0, Wait("quota", resource, job.needs.choices[0] * each, max(0.0, bound - taken), job.owner)
            most = min(most, allowed)
        return _largest(job.needs.choices, most), None

    def _start(self, job: Entry, workers: int) -> None:
        cpus, gpus = job.needs.total(workers)
        size = ", ".join(f"{amount:g} {name}s" for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount)
        filled = f", filled in before {self.reservation.job}" if self.reservation else ""
        self.decisions.append(Start(job.id, workers, f"{size or 'what it needs'} free{filled}"))
        self.begun.append(replace(job, state=State.RUNNING, workers=workers, started=self.now))
        self._hold(job, workers)

    def _hold(self, job: Entry, workers: int) -> None:
        self.placed[job.id] = self.room.hold(job.needs, workers)
        cpus, gpus = job.needs.total(workers)
        used = self.used.setdefault(job.owner, [0.0, 0.0])
        used[0] += cpus
        used[1] += gpus
        if job.run:
            self.runs[job.run] = job.id

    def _possible(self, needs: Needs) -> int:
        """How many workers of this size the whole cluster holds when it is empty, up to what is asked for at least."""
        if needs not in self.possible:
            self.possible[needs] = self.empty.holds(needs.cpus, needs.gpus, needs.choices[0])
        return self.possible[needs]

    def _lacks(self, needs: Needs, behind: str) -> Wait:
        """What of the cluster is short."""
        for resource, each in (("GPU", needs.gpus), ("CPU", needs.cpus)):
            wanted = each * needs.choices[0]
            if each and _of(resource, self.room) + 1e-9 < wanted:
                return Wait("room", resource, wanted, _of(resource, self.room), behind)
        resource, wanted = _main_resource(needs, needs.choices[0])  # enough in all, and not on any one node
        return Wait("room", resource, wanted, _of(resource, self.room), behind)


def _largest(choices: tuple[int, ...], most: int) -> int:
    """The largest of the ascending `choices` that is at most `most`; 0: none."""
    return next((choice for choice in reversed(choices) if choice <= most), 0)


def _main_resource(needs: Needs, workers: int) -> tuple[str, float]:
    cpus, gpus = needs.total(workers)
    return ("GPU", gpus) if gpus else ("CPU", cpus)


def _of(resource: str, room: Room) -> float:
    return room.gpus if resource == "GPU" else room.cpus
