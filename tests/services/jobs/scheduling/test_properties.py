"""Promises of the scheduler, whatever is submitted, ends or yields, in any order; and beside a greedy owner."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dragoman.services.jobs.scheduling.decide import decide
from dragoman.services.jobs.scheduling.entries import Capacity, Entry, Outcome, Rules, Start
from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.scheduling.why import sentence
from dragoman.services.jobs.states import Quota, State
from tests.services.jobs.scheduling.simulation import Simulation

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]  # a failure is shown as found: Phase.shrink takes minutes
often = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
NODES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4)
JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "owner": st.sampled_from(["anna", "ben", "carla"]),
            "priority": st.sampled_from([-10, 0, 10]),
            "choices": st.sampled_from([(1,), (2,), (4,), (1, 2, 3), (2, 3)]),
            "cpus": st.sampled_from([0.5, 1.0, 2.0]),
            "gpus": st.sampled_from([0.0, 0.0, 1.0]),
            "seconds": st.integers(1, 500),
            "run": st.integers(0, 20),
            "at": st.integers(0, 1000),
        }
    ),
    max_size=25,
)


def simulation(jobs: list[dict[str, Any]], nodes: list[tuple[int, int]], quota: int | None) -> Simulation:
    capacity = Capacity(tuple(Node(str(n), cpus, gpus) for n, (cpus, gpus) in enumerate(nodes)), drivers=5)
    seconds = {f"j{number}": float(job["seconds"]) for number, job in enumerate(jobs)}
    rules = Rules(weights={"ben": 2.0}, preempt_after=20.0)
    return Simulation([], capacity, lambda job: seconds[job.id], {"anna": Quota(cpus=quota)}, rules)


def entry(number: int, job: dict[str, Any]) -> Entry:
    needs = Needs(job["choices"], job["cpus"], job["gpus"])
    return Entry(f"j{number}", job["owner"], State.WAITING, job["priority"], number, needs, f"r{job['run']}")


def check(played: Simulation, outcome: Outcome) -> None:
    """Everything is started, asked to end, or waits with a reason; nothing is given twice."""
    waiting = {job.id for job in played.jobs.values() if job.state == State.WAITING}
    started = {decision.job for decision in outcome.decisions if isinstance(decision, Start)}
    assert waiting == started | outcome.waits.keys() and not started & outcome.waits.keys()
    assert len({decision.job for decision in outcome.decisions}) == len(outcome.decisions)
    turns = [wait.ahead for wait in outcome.waits.values() if wait.kind not in ("after", "never")]
    assert turns == list(range(len(turns)))  # the list's order is the order of turns
    assert all(sentence(wait) for wait in outcome.waits.values())
    shuffled = list(played.jobs.values())
    random.Random(1).shuffle(shuffled)
    rules = Rules(played.rules.weights, played.rules.preempt_after, played.usage.held(active(played), played.now))
    assert decide(shuffled, played.capacity, played.now, played.quotas, rules) == outcome


def active(played: Simulation) -> list[Entry]:
    return [job for job in played.jobs.values() if job.active]


def check_resources(played: Simulation) -> None:
    nodes = played.capacity.nodes
    running = active(played)
    assert sum(job.workers * job.needs.cpus for job in running) <= sum(node.cpus for node in nodes) + 1e-6
    assert sum(job.workers * job.needs.gpus for job in running) <= sum(node.gpus for node in nodes) + 1e-6
    assert len({job.run for job in running}) == len(running) <= played.capacity.drivers
    assert all(job.workers in job.needs.choices for job in running)
    bound = played.quotas["anna"].cpus
    if bound is not None:
        assert sum(job.workers * job.needs.cpus for job in running if job.owner == "anna") <= bound + 1e-6


@often
@given(JOBS, NODES, st.none() | st.integers(0, 6))
def test_the_promises_of_a_pass_hold_and_everything_that_can_run_does(
    jobs: list[dict[str, Any]], nodes: list[tuple[int, int]], quota: int | None
) -> None:
    played = simulation(jobs, nodes, quota)
    arrivals = sorted((job["at"], number) for number, job in enumerate(jobs))
    for _ in range(100 * (len(jobs) + 1)):
        while arrivals and arrivals[0][0] <= played.now:
            number = arrivals.pop(0)[1]
            played.jobs[f"j{number}"] = entry(number, jobs[number])
        check(played, played.decide())
        played.step()
        check_resources(played)
        moments = [at for at in (played.next_event(), arrivals[0][0] if arrivals else None) if at is not None]
        if not moments:
            break
        played.advance(min(moments))
    waits = played.decide().waits
    for name, job in played.jobs.items():
        least = job.needs.choices[0] * job.needs.cpus
        beyond = waits[name].kind == "quota" and least > (quota if quota is not None else 1e9)
        assert waits[name].kind == "never" or beyond, waits[name]


@often
@given(JOBS, NODES)
def test_nothing_fits_that_was_not_started_or_kept(jobs: list[dict[str, Any]], nodes: list[tuple[int, int]]) -> None:
    """The cluster is never idle while something waits that fits."""
    played = simulation(jobs, nodes, None)
    entries = [entry(number, job) for number, job in enumerate(jobs)]
    outcome = decide(entries, played.capacity, 0.0)
    if outcome.waits and not outcome.decisions:
        assert {wait.kind for wait in outcome.waits.values()} <= {"never"}


@pytest.mark.parametrize(("seed", "nodes", "load"), [(1, (10,), 0.55), (2, (4, 6), 0.92), (3, (10,), 1.05)])
def test_none_of_200_jobs_waits_beyond_its_owners_share_beside_a_greedy_owner(
    seed: int, nodes: tuple[int, ...], load: float
) -> None:
    """Each starts as early as on a cluster of its owner's own, a fair share of this one, or one running job later."""
    rng, seconds = random.Random(seed), dict[str, float]()
    submitted = [(rng.uniform(0, 50), "greedy", rng.choice([0, 10])) for _ in range(200)]
    end = 50 * 55 / (load * sum(nodes) / 5)  # 50 jobs of 55 s on average are this load of a share
    submitted += [(rng.uniform(0, end), f"owner-{number % 4}", 0) for number in range(200)]
    arrivals = list[tuple[float, Entry]]()
    for number, (at, owner, priority) in enumerate(sorted(submitted)):
        arrivals.append((at, Entry(f"j{number}", owner, State.WAITING, priority, number, Needs((1,), 1.0))))
        seconds[f"j{number}"] = rng.uniform(10, 100)
    capacity = Capacity(tuple(Node(str(number), cpus) for number, cpus in enumerate(nodes)))
    together = Simulation([], capacity, lambda job: seconds[job.id], rules=Rules(preempt_after=30.0))
    together.run(arrivals)
    late = 0
    for owner in range(4):
        theirs = [arrival for arrival in arrivals if arrival[1].owner == f"owner-{owner}"]
        alone = Simulation([], Capacity((Node("own", sum(nodes) / 5),)), lambda job: seconds[job.id])
        alone.run(theirs)
        late += sum(together.first[job.id] > alone.first[job.id] + max(seconds.values()) for _, job in theirs)
    assert late == 0
