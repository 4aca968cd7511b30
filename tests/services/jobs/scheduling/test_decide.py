"""The scheduler's pass: turns, quotas, reservation, back-filling, preemption, elastic jobs; and why a job waits."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dragoman.services.jobs.scheduling import why as explaining
from dragoman.services.jobs.scheduling.decide import decide_queue
from dragoman.services.jobs.scheduling.entries import UNKNOWN, Capacity, Entry, Outcome, Start, Stop, Yield
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.scheduling.rules import Rules, Usage
from dragoman.services.jobs.scheduling.simulate import Simulation
from dragoman.services.jobs.scheduling.why import FIRST, explain, forecasts
from dragoman.services.jobs.states import Quota, State

FOUR = Capacity((Node("a", 2), Node("b", 2)))


def job(name: str, size: int | tuple[int, ...] = 1, cpus: float = 1, **values: Any) -> Entry:
    choices = (size,) if isinstance(size, int) else size
    gpus = values.pop("gpus", 0.0)
    values = {"owner": "anna", "state": State.WAITING, "priority": 0, "age": int(name[1:]), **values}
    return Entry(id=name, needs=Needs(choices, cpus, gpus), **values)


def running(name: str, workers: int = 1, **values: Any) -> Entry:
    return job(name, workers, **{"state": State.RUNNING, "low": 100.0, "high": 100.0, **values, "workers": workers})


def decide(jobs: Iterable[Entry], *rest: Any) -> Outcome:
    return decide_queue(Queue(jobs), *rest, every=True)


def starts(*jobs: Entry, capacity: Capacity = FOUR, now: float = 0, **quotas: Quota) -> dict[str, int]:
    outcome = decide(jobs, quotas, capacity, now)
    return {one.job: one.workers for one in outcome.decisions if isinstance(one, Start)}


def test_turns_are_by_priority_then_age() -> None:
    jobs = [job("j1"), job("j2", priority=10), job("j3", priority=10), job("j0", priority=-10)]
    assert list(forecasts(Queue(jobs), {}, FOUR, 0)) == ["j2", "j3", "j1", "j0"]
    assert starts(*jobs, capacity=Capacity((Node("a", 2),))) == {"j2": 1, "j3": 1}


def test_a_worker_is_not_split_over_nodes() -> None:
    assert starts(job("j1", 1, cpus=3)) == {}
    assert starts(job("j1", 2, cpus=2)) == {"j1": 2}
    assert decide([job("j1", 1, cpus=3)], {}, FOUR, 0).waits["j1"].kind == "never"


def test_what_can_never_be_holds_up_nobody() -> None:
    assert starts(job("j1", 9), job("j2", 4)) == {"j2": 4}


def test_an_owner_gets_no_more_than_the_quota_and_others_pass() -> None:
    jobs = [job("j1"), job("j2"), job("j3", owner="ben")]
    assert starts(*jobs, anna=Quota(cpus=1)) == {"j1": 1, "j3": 1}
    assert starts(job("j1", gpus=1), capacity=Capacity((Node("a", 4, 4),)), anna=Quota(gpus=0)) == {}


def test_the_head_is_not_delayed_by_what_is_filled_in() -> None:
    busy, head = running("j1", 3), job("j2", 4)
    short, long = job("j3", high=99.0), job("j4", high=101.0)
    assert starts(busy, head, short) == {"j3": 1}
    assert starts(busy, head, long) == {}
    outcome = decide([busy, head, long], {}, FOUR, 0)
    assert outcome.reservation is not None
    assert (outcome.reservation.job, outcome.reservation.at) == ("j2", 100)
    assert outcome.waits["j4"].kind == "reserved"
    # what the head leaves free even then is anybody's
    assert starts(busy, job("j2", 3), long) == {"j4": 1}


def test_lower_priorities_yield_the_fewest_and_the_newest_first() -> None:
    jobs = [running("j1", started=0), running("j2", started=5), running("j3", started=9), running("j4", priority=9)]
    outcome = decide([*jobs, job("j5", 2, priority=5)], {}, FOUR, 10)
    assert {one.job for one in outcome.decisions if isinstance(one, Yield)} == {"j2", "j3"}
    assert outcome.waits["j5"].kind == "preempting"
    asked = [replace(one, state=State.YIELDING) if one.id in ("j2", "j3") else one for one in jobs]
    assert decide([*asked, job("j5", 2, priority=5)], {}, FOUR, 11).decisions == ()  # they are asked once


def test_nobody_yields_in_vain_or_to_an_equal_or_who_cannot_go_on() -> None:
    jobs = [running("j1", 2), running("j2", 2, priority=5)]
    assert decide([*jobs, job("j3", 4, priority=5)], {}, FOUR, 0).decisions == ()
    assert decide([running("j1", 4), job("j2")], {}, FOUR, 0).decisions == ()
    assert decide([running("j1", 4, yields=False), job("j2", priority=5)], {}, FOUR, 0).decisions == ()


def test_an_elastic_job_takes_what_is_free_and_allowed() -> None:
    elastic = job("j1", (1, 2, 4))
    assert starts(elastic) == {"j1": 4}
    assert starts(running("j2"), elastic) == {"j1": 2}
    assert starts(elastic, anna=Quota(cpus=3)) == {"j1": 2}


def test_two_jobs_never_work_on_one_run() -> None:
    outcome = decide([running("j1", run="a"), job("j2", run="a"), job("j3", run="b"), job("j4", run="b")], {}, FOUR, 0)
    assert [one.job for one in outcome.decisions] == ["j3"]
    assert (outcome.waits["j2"].behind, outcome.waits["j4"].behind) == ("j1", "j3")


def test_no_more_jobs_are_active_than_drivers_fit() -> None:
    capacity = Capacity(FOUR.nodes, drivers=1)
    assert starts(job("j1"), job("j2"), capacity=capacity) == {"j1": 1}


def test_time_that_is_over_ends_a_job() -> None:
    jobs = [running("j1", most=50.0), running("j2", most=51.0)]
    assert [one.job for one in decide(jobs, {}, FOUR, 50).decisions if isinstance(one, Stop)] == ["j1"]


def test_why_names_what_lacks_who_holds_it_and_when_it_starts() -> None:
    jobs = [running("j1", 3, low=50.0), job("j2", 2, owner="ben")]
    why = explain("j2", Queue(jobs), {}, FOUR, 10)
    assert why.text == "needs 2 CPUs, 1 is free"
    assert [(one.job, one.owner, one.amount, one.latest) for one in why.holders] == [("j1", "anna", 3, 100)]
    start = forecasts(Queue(jobs), {}, FOUR, 10)["j2"]
    assert (start.text, start.earliest, start.latest) == (why.text, 50, 100)
    open_end = Queue([running("j1", 4, high=UNKNOWN), job("j2", 2)])
    assert explain("j2", open_end, {}, FOUR, 10).holders[0].latest is None
    assert forecasts(open_end, {}, FOUR, 10)["j2"].latest is None


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([job("j2", blocked="j1")], "comes after job j1"),
        ([job("j2", 9)], "needs 9 CPUs; the cluster has 4 in all"),
        ([running("j1", run="x"), job("j2", run="x")], "job j1 works on the same run 'x'"),
        ([running("j1", 2), job("j2", 1)], "of the quota of anna 0 are left"),
        ([running("j1", 4, owner="c"), job("j2", 1, priority=3)], "asked to make room: job j1"),
        ([job("j2", 2)], "it starts in the next pass"),
    ],
)
def test_why_has_a_sentence_for_each_reason(jobs: list[Entry], text: str) -> None:
    assert text in explain("j2", Queue(jobs), {"anna": Quota(cpus=2)}, FOUR, 0).text


def test_a_forecast_counts_those_that_come_first() -> None:
    jobs = [running("j1", 4), *(job(f"j{n}", 4, high=10.0, low=10.0) for n in (2, 3, 4))]
    assert forecasts(Queue(jobs), {}, FOUR, 0)["j4"].latest == 120


def test_of_a_job_far_behind_it_is_said_why_it_waits_but_not_when_it_starts() -> None:
    queue = Queue([running("j0", 4), *(job(f"j{n}", 4, high=10.0, low=10.0) for n in range(1, FIRST + 3))])
    made = forecasts(queue, {}, FOUR, 0)
    near, far = made["j2"], made[f"j{FIRST + 2}"]
    assert near.earliest is not None
    assert (far.ahead, far.earliest, far.latest) == (FIRST + 1, None, None)
    assert "needs 4 CPUs" in far.text


def test_a_forecast_that_takes_too_long_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "BUDGET", -1.0)
    start = forecasts(Queue([running("j1", 4), job("j2", 4, high=10.0, low=10.0)]), {}, FOUR, 0)["j2"]
    assert (start.earliest, start.latest) == (None, None)


def test_what_runs_is_counted_though_its_workers_fit_no_more_when_packed_anew() -> None:
    # The job with the GPU is packed first, on the node that the job of two CPUs has: no other node holds that one.
    capacity = Capacity((Node("a", 1), Node("b", 1, 2), Node("c", 2, 1)))
    jobs = [running("j1", cpus=0.5), running("j2", cpus=2), running("j3", cpus=0.5, gpus=1)]
    assert starts(*jobs, job("j4", (1, 2, 3), cpus=0.5), capacity=capacity) == {"j4": 2}


class Promises(RuleBasedStateMachine):
    """Whatever is submitted, ends or yields, in any order: the promises of the pass hold."""

    @initialize(
        nodes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4),
        quota=st.none() | st.integers(0, 6),
        half_life=st.none() | st.sampled_from([50.0, 5000.0]),
        patience=st.none() | st.sampled_from([100.0, 1000.0]),
        preempt_after=st.sampled_from([0.0, 100.0]),
        drivers=st.sampled_from([2, 100]),
    )
    def begin(
        self,
        nodes: list[tuple[int, int]],
        quota: int | None,
        half_life: float | None,
        patience: float | None,
        preempt_after: float,
        drivers: int,
    ) -> None:
        self.capacity = Capacity(tuple(Node(str(n), cpus, gpus) for n, (cpus, gpus) in enumerate(nodes)), drivers)
        rules = Rules(Usage(half_life) if half_life else None, {"ben": 2.0}, patience, preempt_after)
        self.quotas = {"anna": Quota(cpus=quota)}
        self.simulation = Simulation(Queue(), self.quotas, self.capacity, 0.0, lambda one: one.low, rules, 10.0)
        self.promised: dict[str, float] = {}
        self.count = 0

    @rule(
        owner=st.sampled_from(["anna", "ben"]),
        priority=st.sampled_from([-10, 0, 10]),
        least=st.integers(1, 4),
        more=st.integers(0, 3),
        cpus=st.sampled_from([0.5, 1, 2]),
        gpus=st.sampled_from([0, 0, 1]),
        seconds=st.integers(1, 500),
        slack=st.sampled_from([1.0, 2.0]),
        run=st.integers(0, 20),
    )
    def submit(
        self,
        owner: str,
        priority: int,
        least: int,
        more: int,
        cpus: float,
        gpus: int,
        seconds: int,
        slack: float,
        run: int,
    ) -> None:
        self.count += 1
        needs = Needs(tuple(range(least, least + more + 1)), cpus, gpus)
        name = f"j{self.count}"
        times: dict[str, Any] = {"low": seconds, "high": seconds * slack, "since": self.simulation.now}
        entry = Entry(name, owner, State.WAITING, priority, self.count, needs, f"r{run}", **times)
        self.simulation.add(entry)
        self.promised.clear()  # a newcomer of higher priority may come first

    @rule()
    def schedule(self) -> None:
        before = {name: one.state for name, one in self.simulation.jobs.items()}
        jobs, now, rules = list(self.simulation.jobs.values()), self.simulation.now, self.simulation.rules
        outcome = decide(jobs, self.quotas, self.capacity, now, rules)
        short = self.simulation.step()  # by the queue that is kept, without a look at everything
        assert (short.decisions, short.reservation) == (outcome.decisions, outcome.reservation)
        assert short.waits.items() <= outcome.waits.items()
        for waiting in (one for one in jobs if one.state == State.WAITING):
            asked = decide_queue(Queue(jobs), self.quotas, self.capacity, now, rules, waiting)
            assert asked.waits.get(waiting.id) == outcome.waits.get(waiting.id)
            assert asked.decisions == outcome.decisions
        started = [one for one in outcome.decisions if isinstance(one, Start)]
        assert len({one.job for one in outcome.decisions}) == len(outcome.decisions)
        for one in started:
            assert before[one.job] == State.WAITING
        queued = {name for name, state in before.items() if state == State.WAITING}
        assert queued == {one.job for one in started} | outcome.waits.keys()
        if outcome.reservation is not None:
            head, at = outcome.reservation.job, outcome.reservation.at
            # whose run or quota had held it back, or whose owner's share has shrunk
            overtaken = any("filled in" not in one.reason for one in started)
            # over several nodes it is only sure that it comes as early as it can
            if len(self.capacity.nodes) == 1 and not overtaken:
                assert at <= self.promised.get(head, at) + 1e-6, "the head was put off"
            self.promised = {head: at}
        else:
            self.promised.clear()

    @precondition(lambda self: self.simulation.next_event() is not None)
    @rule()
    def time_passes(self) -> None:
        at = self.simulation.next_event()
        assert at is not None
        self.simulation.advance(at)

    @invariant()
    def nothing_is_given_twice(self) -> None:
        if not hasattr(self, "capacity"):
            return
        active = [one for one in self.simulation.jobs.values() if one.active]
        assert sum(one.workers * one.needs.cpus for one in active) <= sum(n.cpus for n in self.capacity.nodes) + 1e-6
        assert sum(one.workers * one.needs.gpus for one in active) <= sum(n.gpus for n in self.capacity.nodes) + 1e-6
        assert len({one.run for one in active}) == len(active)
        bound = self.quotas["anna"].cpus
        if bound is not None:
            assert sum(one.workers * one.needs.cpus for one in active if one.owner == "anna") <= bound + 1e-6
        for one in active:
            assert one.workers in one.needs.choices

    def teardown(self) -> None:
        """Everything that can ever run does: nobody waits for ever."""
        if not hasattr(self, "capacity"):
            return
        simulation = self.simulation
        for _ in range(20 * (self.count + 1)):
            outcome = simulation.step()
            at = simulation.next_event()
            if at is None:
                break
            simulation.advance(at)
        outcome = decide(simulation.jobs.values(), self.quotas, self.capacity, simulation.now, simulation.rules)
        for name in simulation.jobs:
            wait = outcome.waits[name]
            assert wait.kind == "never" or (wait.kind == "quota" and wait.needed > (self.quotas["anna"].cpus or 0)), (
                wait
            )


Promises.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPromises = Promises.TestCase


def test_a_thousand_jobs_leave_nothing_idle_that_somebody_could_use() -> None:
    import random

    random.seed(7)
    jobs = [
        job(
            f"j{n}",
            random.choice([1, 1, 2, 4]),
            priority=random.choice([0, 0, 10]),
            low=(t := random.randint(5, 300)),
            high=t * 1.5,
            owner=random.choice("abc"),
        )
        for n in range(1000)
    ]
    simulation = Simulation(Queue(jobs), {}, FOUR, 0.0, lambda one: one.low)
    while simulation.jobs:
        simulation.step()
        at = simulation.next_event()
        assert at is not None
        simulation.advance(at)
    work = sum(one.low * one.needs.choices[0] for one in jobs)
    assert work / (4 * simulation.now) > 0.9
