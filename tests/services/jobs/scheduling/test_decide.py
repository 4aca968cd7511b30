"""The scheduler's pass: turns, quotas, room that is kept, preemption, elastic jobs; and why a job waits."""

from dataclasses import replace
from typing import Any

import pytest

from dragoman.services.jobs.scheduling.decide import NO_RULES, decide
from dragoman.services.jobs.scheduling.entries import Capacity, Entry, Rules, Start, Stop, Yield
from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.scheduling.why import explain, find_holders
from dragoman.services.jobs.states import Quota, State

FOUR = Capacity((Node("a", 2), Node("b", 2)))
ONE_NODE = Capacity((Node("a", 4),))


def job(name: str, size: int | tuple[int, ...] = 1, cpus: float = 1, **values: Any) -> Entry:
    choices = (size,) if isinstance(size, int) else size
    gpus = values.pop("gpus", 0.0)
    values = {"owner": "anna", "state": State.WAITING, "priority": 0, "age": int(name[1:]), **values}
    return Entry(id=name, needs=Needs(choices, cpus, gpus), **values)


def running(name: str, workers: int = 1, **values: Any) -> Entry:
    return job(name, workers, **{"state": State.RUNNING, **values, "workers": workers})


def starts(
    *jobs: Entry, capacity: Capacity = FOUR, now: float = 0, rules: Rules = NO_RULES, **quotas: Quota
) -> dict[str, int]:
    outcome = decide(jobs, capacity, now, quotas, rules)
    return {start.job: start.workers for start in outcome.decisions if isinstance(start, Start)}


def yields(*jobs: Entry, now: float = 0, rules: Rules = NO_RULES) -> set[str]:
    return {one.job for one in decide(jobs, FOUR, now, {}, rules).decisions if isinstance(one, Yield)}


def test_turns_of_one_owner_are_by_priority_then_age() -> None:
    jobs = [job("j1"), job("j2", priority=10), job("j3", priority=10), job("j0", priority=-10), running("j9", 4)]
    assert list(decide(jobs, FOUR, 0).waits) == ["j2", "j3", "j1", "j0"]
    assert starts(*jobs[:4], capacity=Capacity((Node("a", 2),))) == {"j2": 1, "j3": 1}


def test_a_worker_is_not_split_over_nodes() -> None:
    assert starts(job("j1", 1, cpus=3)) == {}
    assert starts(job("j1", 2, cpus=2)) == {"j1": 2}
    assert decide([job("j1", 1, cpus=3)], FOUR, 0).waits["j1"].kind == "never"


def test_what_can_never_be_holds_up_nobody() -> None:
    assert starts(job("j1", 9), job("j2", 4)) == {"j2": 4}
    assert starts(job("j1", 4), job("j2"), anna=Quota(cpus=2)) == {"j2": 1}


def test_an_owner_gets_no_more_than_the_quota_and_others_pass() -> None:
    jobs = [job("j1"), job("j2"), job("j3", owner="ben")]
    assert starts(*jobs, anna=Quota(cpus=1)) == {"j1": 1, "j3": 1}
    assert starts(*jobs, anna=Quota(jobs=1)) == {"j1": 1, "j3": 1}
    assert starts(job("j1", gpus=1), capacity=Capacity((Node("a", 4, 4),)), anna=Quota(gpus=0)) == {}


def test_a_quota_is_kept_for_the_owners_first_job_that_exceeds_it() -> None:
    jobs = [running("j1", 2), job("j2", 2), job("j3")]
    assert starts(*jobs, anna=Quota(cpus=3)) == {}
    waits = decide(jobs, FOUR, 0, {"anna": Quota(cpus=3)}).waits
    assert (waits["j2"].kind, waits["j3"].kind, waits["j3"].behind) == ("quota", "held", "j2")


def test_room_is_kept_for_the_first_job_that_does_not_fit() -> None:
    jobs = [running("j1", 3), job("j2", 4), job("j3")]
    assert starts(*jobs, capacity=ONE_NODE) == {}
    waits = decide(jobs, ONE_NODE, 0).waits
    assert (waits["j2"].kind, waits["j3"].kind, waits["j3"].behind) == ("room", "reserved", "j2")


def test_what_the_first_job_does_not_need_is_anybodys() -> None:
    two = Capacity((Node("gpu", 8, 1), Node("cpu", 4)))
    busy = running("j1", cpus=1, gpus=1)
    assert starts(busy, job("j2", cpus=4, gpus=1), job("j3", 3), job("j4", cpus=4), capacity=two) == {"j3": 3, "j4": 1}
    # of the node with the GPU as much as the first job leaves: 8 CPUs, of which 1 is in use and 4 are kept
    assert starts(busy, job("j2", cpus=4, gpus=1), job("j3", 4), job("j4", 4), capacity=two) == {"j3": 4}


def test_a_job_on_one_node_is_not_starved_by_small_ones_on_all_nodes() -> None:
    jobs = [running("j1", cpus=1.5), running("j2", cpus=1.5)]
    small = [job("j4", cpus=0.5), job("j5", cpus=0.5)]
    assert starts(*jobs, *small) == {"j4": 1, "j5": 1}
    assert starts(*jobs, job("j3", cpus=2), *small) == {"j4": 1}  # one node runs empty for j3


def test_lower_priorities_yield_the_fewest_and_the_newest_first() -> None:
    jobs = [running("j1", started=0), running("j2", started=5), running("j3", started=9), running("j4", priority=9)]
    outcome = decide([*jobs, job("j5", 2, priority=5)], FOUR, 10)
    assert {one.job for one in outcome.decisions if isinstance(one, Yield)} == {"j2", "j3"}
    assert outcome.waits["j5"].kind == "preempting"
    asked = [replace(one, state=State.YIELDING) if one.id in ("j2", "j3") else one for one in jobs]
    assert decide([*asked, job("j5", 2, priority=5)], FOUR, 11).decisions == ()  # they are asked once


def test_a_pass_asks_a_job_to_end_once() -> None:
    """Though the first job without GPUs and the first with GPUs both need its room, or its time is over too."""
    node = Capacity((Node("a", 4, 1),))
    both = [running("j1", 4), job("j2", 4, gpus=0.25, priority=5), job("j3", 4, priority=5)]
    assert [(type(one), one.job) for one in decide(both, node, 0).decisions] == [(Yield, "j1")]
    late = [running("j1", 4, most=50.0), job("j2", 4, priority=5)]
    assert [(type(one), one.job) for one in decide(late, FOUR, 50).decisions] == [(Stop, "j1")]


def test_nobody_yields_in_vain_or_to_an_equal_or_who_cannot_go_on() -> None:
    assert yields(running("j1", 2), running("j2", 2, priority=5), job("j3", 4, priority=5)) == set()
    assert yields(running("j1", 4), job("j2")) == set()
    assert yields(running("j1", 4, yields=False), job("j2", priority=5)) == set()


def test_jobs_yield_only_when_they_have_run_for_a_while() -> None:
    jobs = [running("j1", 4, stepped=50.0), job("j2", priority=5)]
    rules = Rules(preempt_after=100.0)
    assert yields(*jobs, now=149, rules=rules) == set()
    assert decide(jobs, FOUR, 149, {}, rules).waits["j2"].kind == "ripening"
    assert yields(*jobs, now=150, rules=rules) == {"j1"}


def test_an_owners_share_does_not_yield_to_others_unless_its_priority_is_low() -> None:
    ben = running("j1", 1, owner="ben")
    greedy = running("j2", 3, owner="anna", priority=5)
    assert yields(ben, greedy, job("j3", owner="anna", priority=10)) == {"j2"}
    assert yields(ben, greedy, job("j3", owner="carla", priority=10)) == {"j2"}
    assert yields(replace(ben, priority=-10), greedy, job("j3", owner="carla", priority=5)) == {"j1"}


def test_who_holds_more_than_a_fair_share_comes_last_whatever_the_priority() -> None:
    jobs = [running("j1", 2, owner="anna"), job("j2", priority=10), job("j3", owner="ben", priority=-10)]
    assert starts(*jobs, running("j4", owner="ben")) == {"j3": 1}


def test_weights_make_shares_larger() -> None:
    jobs = [running("j1", 1, owner="anna"), running("j2", 1, owner="ben"), job("j3", 2, owner="ben"), job("j4", 2)]
    assert starts(*jobs, rules=Rules(weights={"anna": 3.0})) == {"j4": 2}
    assert starts(*jobs, rules=Rules(weights={"ben": 3.0})) == {"j3": 2}


def test_what_was_used_before_counts() -> None:
    jobs = [job("j1", 4, owner="anna"), job("j2", 4, owner="ben")]
    assert starts(*jobs) == {"j1": 4}
    assert starts(*jobs, rules=Rules(used={"anna": (2.0, 0.0)})) == {"j2": 4}


def test_an_elastic_job_gets_what_is_left_and_allowed() -> None:
    elastic = job("j1", (1, 2, 4))
    assert starts(elastic) == {"j1": 4}
    assert starts(running("j2"), elastic) == {"j1": 2}
    assert starts(elastic, job("j2")) == {"j1": 2, "j2": 1}
    assert starts(elastic, anna=Quota(cpus=3)) == {"j1": 2}


def test_two_jobs_never_work_on_one_run() -> None:
    outcome = decide([running("j1", run="a"), job("j2", run="a"), job("j3", run="b"), job("j4", run="b")], FOUR, 0)
    assert [one.job for one in outcome.decisions] == ["j3"]
    assert (outcome.waits["j2"].behind, outcome.waits["j4"].behind) == ("j1", "j3")


def test_no_more_jobs_are_active_than_drivers_fit() -> None:
    assert starts(job("j1"), job("j2"), capacity=Capacity(FOUR.nodes, drivers=1)) == {"j1": 1}


def test_time_that_is_over_ends_a_job() -> None:
    jobs = [running("j1", most=50.0), running("j2", most=51.0)]
    assert [one.job for one in decide(jobs, FOUR, 50).decisions if isinstance(one, Stop)] == ["j1"]


def test_why_names_what_lacks_and_who_holds_it() -> None:
    jobs = [running("j1", 3, seconds=100.0), job("j2", 2, owner="ben")]
    wait = decide(jobs, FOUR, 10).waits["j2"]
    why, holders = explain(wait), find_holders(jobs[1], wait, jobs, 10)
    assert why.text == "needs 2 CPUs, 1 is free"
    assert [(one.job, one.owner, one.amount, one.until) for one in holders] == [("j1", "anna", 3, 100)]


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([job("j2", blocked="j1")], "comes after job j1"),
        ([job("j2", 9)], "needs 9 CPUs; the cluster has 4 in all"),
        ([running("j1", run="x"), job("j2", run="x")], "job j1 works on the same run"),
        ([running("j1", 2), job("j2", 1)], "of the quota of anna 0 are left"),
        ([running("j1", 4, owner="c"), job("j2", 1, priority=3)], "asked to make room: job j1"),
        ([running("j1", 4, owner="c"), job("j0", owner="b"), job("j2")], "1 job comes first"),
        ([job("j2", 2)], "it waits for the next pass"),
    ],
)
def test_why_has_a_sentence_for_each_reason(jobs: list[Entry], text: str) -> None:
    waits = decide(jobs, FOUR, 0, {"anna": Quota(cpus=2)}).waits
    assert text in explain(waits.get("j2")).text


def test_what_runs_is_counted_though_its_workers_fit_no_more_when_packed_anew() -> None:
    # The job with the GPU is packed first, on the node that the job of two CPUs has: no other node holds that one.
    capacity = Capacity((Node("a", 1), Node("b", 1, 2), Node("c", 2, 1)))
    jobs = [running("j1", cpus=0.5), running("j2", cpus=2), running("j3", cpus=0.5, gpus=1)]
    assert starts(*jobs, job("j4", (1, 2, 3), cpus=0.5), capacity=capacity) == {"j4": 2}
