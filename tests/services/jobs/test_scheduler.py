"""The queue that is kept from pass to pass is the one that a new service would read."""

import gc
import random
import weakref
from collections.abc import Iterator

import pytest

from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.scheduling.entries import Capacity, Entry
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.scheduling.rules import Rules, Usage
from dragoman.services.jobs.service import scheduler
from dragoman.services.jobs.service.scheduler import Scheduler
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring


def test_a_queue_that_follows_the_audit_trail_is_that_of_the_ledger(ledger: Ledger) -> None:
    """Jobs are submitted, planned, moved, given another priority, stopped and removed in any order."""
    rng = random.Random(3)
    access = Access(ledger)
    kept = Scheduler(ledger, access)
    kept.snapshot()  # the one comparison of the whole within this test
    names: list[str] = []
    for _ in range(60):
        act(ledger, rng, names)
        if rng.random() < 0.5:
            queue, fresh = kept.snapshot()[0], Scheduler(ledger, access).snapshot()[0]
            assert queue.jobs == fresh.jobs
            assert queue.active == fresh.active
            assert [entry.id for entry in walk(queue)] == [entry.id for entry in walk(fresh)]
    assert len(names) > 5


def test_what_owners_have_used_is_derived_from_the_ledgers_attempts(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(ledger, "now", lambda: clock[0])
    kept = Scheduler(ledger, Access(ledger), Rules(Usage(100.0)))

    def run_one(owner: str, seconds: float) -> None:
        job = ledger.submit(owner, "train", ["name=a"])
        job = bring(ledger, job, State.RUNNING, 3, choices=[3], cpus=2.0, gpus=0.5)
        clock[0] += seconds
        ledger.end(job, State.SUCCEEDED, "succeeded", "end", "")

    def used(passes: Scheduler, owner: str) -> tuple[float, float]:
        usage = passes.snapshot()[2].usage
        assert usage is not None
        return usage.held(owner, clock[0])

    run_one("anna", 100.0)
    assert used(kept, "anna") == pytest.approx((3.0, 0.75))  # half of 3 workers of 2 CPUs and half a GPU
    assert used(kept, "anna") == pytest.approx((3.0, 0.75))  # counted once
    run_one("ben", 100.0)
    run_one("anna", 100.0)
    assert used(kept, "anna") == pytest.approx((0.75 + 3.0, 0.1875 + 0.75))
    for owner in ("anna", "ben", "cleo"):
        fresh = Scheduler(ledger, Access(ledger), Rules(Usage(100.0)))
        assert used(fresh, owner) == pytest.approx(used(kept, owner))
    assert Scheduler(ledger, Access(ledger)).snapshot()[2].usage is None


def walk(queue: Queue) -> Iterator[Entry]:
    steps = queue.walk()
    while (entry := steps.next()) is not None:
        yield entry


def act(ledger: Ledger, rng: random.Random, names: list[str]) -> None:
    if not names or rng.random() < 0.4:
        after = rng.sample(names, 1) if names and rng.random() < 0.3 else []
        job = ledger.submit(rng.choice(["anna", "bert"]), "train", ["name=a"], after=after)
        bring(ledger, job, State.WAITING, choices=[rng.choice([1, 2])], cpus=1.0)
        names.append(job.id)
        return
    job = ledger.job(rng.choice(names))
    match State(job.state):
        case State.WAITING if rng.random() < 0.3:
            ledger.set_priority(job, rng.choice([-10, 10]), "anna")
        case State.WAITING if rng.random() < 0.6:
            bring(ledger, job, State.STARTING)
        case State.WAITING:
            ledger.change(job, State.STOPPED, "anna", "no longer needed")
        case State.STARTING:
            ledger.mark_started(job)
        case State.RUNNING:
            ledger.end(job, rng.choice([State.SUCCEEDED, State.WAITING]), "succeeded", "", "")
        case _ if job.state in (State.SUCCEEDED, State.STOPPED) and not any(
            job.id in ledger.job(name).after for name in names
        ):
            ledger.remove(job, "anna")
            names.remove(job.id)


def test_a_long_queue_is_out_of_the_collectors_sight_and_let_go_all_the_same(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "FROZEN", 3)
    for _ in range(3):
        bring(ledger, ledger.submit("anna", "train", ["name=a"]), State.WAITING, choices=[4], cpus=1.0)
    kept = Scheduler(ledger, Access(ledger))
    gc.freeze()  # what other tests left is looked at no more: in a process of many tests that takes seconds
    before = gc.get_freeze_count()
    try:
        kept.run(Capacity((Node("a", 1.0),), 1))
        assert gc.get_freeze_count() > before
        known = {job.id: weakref.ref(job) for job in kept._known.values()}
        gc.disable()
        for job in ledger.jobs([State.WAITING]):
            ledger.change(job, State.STOPPED, "anna", "")
        kept.run(Capacity((Node("a", 1.0),), 1))
        assert len(known) == 3 and not any(one() for one in known.values())
    finally:
        gc.enable()
        gc.unfreeze()
