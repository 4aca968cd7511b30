"""A pass over the ledger: what it reads, what it counts for the owners, what it writes."""

import pytest

from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.service.metrics import Metrics
from dragoman.services.jobs.service.scheduler import Scheduler
from dragoman.services.jobs.settings import FairShareConfig, ServiceConfig
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring

ONE = Capacity((Node("a", 1.0),))
CONFIG = ServiceConfig(fair_share=FairShareConfig(half_life=100.0))


def waiting(ledger: Ledger, owner: str = "anna", **values: object) -> str:
    job = ledger.submit(owner, "train", ["name=a"], after=list(values.pop("after", [])))  # type: ignore[call-overload]
    return bring(ledger, job, State.WAITING, choices=[1], cpus=1.0, **values).id


def test_a_pass_starts_jobs_and_says_why_the_others_wait(ledger: Ledger) -> None:
    first, second = waiting(ledger), waiting(ledger)
    behind = waiting(ledger, after=[second])
    scheduler = Scheduler(ledger, Access(ledger), CONFIG, Metrics())
    outcome = scheduler.run(ONE)
    assert outcome is not None and ledger.job(first).state == State.STARTING
    assert {name: wait.kind for name, wait in scheduler.outcome.waits.items()} == {second: "room", behind: "after"}
    assert ledger.job(second).state == State.WAITING


def test_a_pass_sees_every_change_of_the_ledger(ledger: Ledger) -> None:
    scheduler = Scheduler(ledger, Access(ledger), CONFIG, Metrics())
    names = [waiting(ledger) for _ in range(3)]
    scheduler.run(Capacity(()))
    assert scheduler.entries.keys() == set(names)
    ledger.change(ledger.job(names[0]), State.STOPPED, "anna", "no longer needed")
    ledger.set_priority(ledger.job(names[1]), 10, "anna")
    scheduler.run(Capacity(()))
    assert {name: job.priority for name, job in scheduler.entries.items()} == {names[1]: 10, names[2]: 0}


def test_the_second_of_two_schedulers_reads_again(ledger: Ledger) -> None:
    names = [waiting(ledger), waiting(ledger)]
    first, second = (Scheduler(ledger, Access(ledger), CONFIG, Metrics()) for _ in range(2))
    number = second._read()
    assert first.run(Capacity((Node("a", 2.0),))) is not None
    assert not second._write(first.outcome.decisions, number)
    assert [ledger.job(name).state for name in names] == [State.STARTING] * 2


def test_what_owners_have_used_is_derived_from_the_ledgers_attempts(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(ledger, "now", lambda: clock[0])
    kept = Scheduler(ledger, Access(ledger), CONFIG, Metrics())

    def run_one(owner: str, seconds: float) -> None:
        job = ledger.submit(owner, "train", ["name=a"])
        job = bring(ledger, job, State.RUNNING, 3, choices=[3], cpus=2.0, gpus=0.5)
        clock[0] += seconds
        ledger.end(job, State.SUCCEEDED, "succeeded", "end", "")

    def used(passes: Scheduler, owner: str) -> tuple[float, float]:
        passes.run(ONE)
        assert passes._usage is not None
        return passes._usage.held([], clock[0]).get(owner, (0.0, 0.0))

    run_one("anna", 100.0)
    assert used(kept, "anna") == pytest.approx((3.0, 0.75))  # half of 3 workers of 2 CPUs and half a GPU
    assert used(kept, "anna") == pytest.approx((3.0, 0.75))  # counted once
    run_one("ben", 100.0)
    run_one("anna", 100.0)
    assert used(kept, "anna") == pytest.approx((0.75 + 3.0, 0.1875 + 0.75))
    for owner in ("anna", "ben", "cleo"):
        fresh = Scheduler(ledger, Access(ledger), CONFIG, Metrics())
        assert used(fresh, owner) == pytest.approx(used(kept, owner))
