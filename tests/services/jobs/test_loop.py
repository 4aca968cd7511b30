"""The service's loop with real processes: preemption and exact resume, every way to die, nothing twice or lost."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.service.attempts import describe_attempt
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.operations import Operations
from dragoman.services.jobs.service.verdict import judge_exit, judge_vanishing
from dragoman.services.jobs.states import ENDED, State
from tests.services.jobs.processes import PROCESSES, REPOSITORY, ProcessExecutor, bring, make_loop, words

PATIENCE = 120.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    started = tmp_path / "started"
    for line in started.read_text().splitlines() if started.exists() else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(line.split()[1]))
            for one in [*process.children(recursive=True), process]:
                one.kill()
    while PROCESSES:
        PROCESSES.pop().wait(60)


@pytest.fixture
def loop(home: Path) -> Iterator[Loop]:
    one = make_loop(f"sqlite:///{home}/ledger.db", home)
    yield one
    one.ledger.database.close()


def turn(loop: Loop, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < deadline, [(job.id, job.state, job.reason) for job in loop.ledger.jobs()]
        loop._take()
        loop.look()
        time.sleep(0.02)


def ended(loop: Loop) -> bool:
    return all(job.state in ENDED for job in loop.ledger.jobs())


def submit(loop: Loop, home: Path, name: str, owner: str = "anna", **values: Any) -> Job:
    settings = {key: values.pop(key) for key in ("steps", "pause", "code", "workers") if key in values}
    return loop.ledger.submit(owner, "train", words(home, name, **{"steps": 20, **settings}), **values)


def steps(home: Path, name: str) -> list[int]:
    return [json.loads(line)["step"] for line in (home / name / "steps.jsonl").read_text().splitlines()]


def starts(home: Path, name: str) -> list[int]:
    return [int(line.split()[1]) for line in (home / name / "starts").read_text().splitlines()]


def executor(loop: Loop) -> ProcessExecutor:
    assert isinstance(loop.executor, ProcessExecutor)
    return loop.executor


def state(loop: Loop, job: Job) -> str:
    return loop.ledger.job(job.id).state


def test_a_job_of_higher_priority_has_another_yield_which_goes_on_where_it_was(loop: Loop, home: Path) -> None:
    low = submit(loop, home, "low", steps=150, workers=2, priority=-10)
    turn(loop, lambda: (home / "low" / "steps.jsonl").exists())
    high = submit(loop, home, "high", owner="ben", priority=10)
    also = submit(loop, home, "also", owner="ben", after=[high.id])
    turn(loop, lambda: ended(loop))
    assert {state(loop, job) for job in (low, high, also)} == {State.SUCCEEDED}
    assert [(one.outcome, one.cause, one.code) for one in loop.ledger.attempts(low.id)] == [
        ("yielded", "preemption", 75),
        ("succeeded", "end", 0),
    ]
    assert steps(home, "low") == list(range(1, 151))  # none left out, none twice
    first, second = starts(home, "low")
    assert first == 0 and second > 0
    trail = [change.after for change in loop.ledger.changes(job=low.id)]
    assert trail[4:] == ["running", "yielding", "waiting", "starting", "running", "succeeded"]
    log = b"".join(attempt_of(home, low.id, number).read_log(0, 1 << 20) for number in (1, 2)).decode().split("\n")
    assert [line for line in log if line] == [f"step {n}" for n in range(1, 151)]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["after-commit", "before-submit", "after-submit"])
def test_a_service_that_dies_at_every_write_loses_nothing_and_does_nothing_twice(
    mode: str, home: Path, loop: Loop
) -> None:
    jobs = [submit(loop, home, f"r{number}", steps=3, workers=2) for number in range(2)]
    command = [sys.executable, "-m", "tests.services.jobs.processes", f"sqlite:///{home}/ledger.db", str(home), mode]
    deaths = 0
    deadline = time.monotonic() + PATIENCE
    while not ended(loop):
        assert time.monotonic() < deadline, [(job.id, job.state, job.reason) for job in loop.ledger.jobs()]
        # a death before the hand-over would repeat for ever: every other service lives
        chosen = command if mode == "after-commit" or deaths % 2 == 0 else [*command[:-1], "never"]
        code = subprocess.run(chosen, cwd=REPOSITORY, check=False, timeout=PATIENCE).returncode
        assert code in (0, 9)
        deaths += 1
    assert deaths >= (10 if mode == "after-commit" else 2)
    for number, job in enumerate(jobs):
        assert state(loop, job) == State.SUCCEEDED
        assert starts(home, f"r{number}") == [0]
        assert steps(home, f"r{number}") == [1, 2, 3]
        assert [one.outcome for one in loop.ledger.attempts(job.id)] == ["succeeded"]


def test_a_killed_attempt_is_started_again_from_its_checkpoint_and_its_loss_is_recorded(loop: Loop, home: Path) -> None:
    job = submit(loop, home, "run", steps=40)
    turn(loop, lambda: (home / "run" / "steps.jsonl").exists() and len(steps(home, "run")) > 7)
    runner = psutil.Process(executor(loop).pid(f"{job.id}-a1"))
    below = runner.children(recursive=True)
    for one in below:
        one.suspend()  # or the runner sees it end, and writes that down
    for one in [runner, *below]:
        one.kill()
    turn(loop, lambda: ended(loop))
    assert state(loop, job) == State.SUCCEEDED
    assert steps(home, "run") == list(range(1, 41))
    lost, _ = loop.ledger.attempts(job.id)
    assert (lost.outcome, lost.cause) == ("lost", "vanished")
    assert loop.ledger.job(job.id).losses == 1
    (measured,) = loop.intake.plans.measured()  # the next prediction is made of what the last attempt took
    kept = starts(home, "run")[-1]
    assert (measured.steps, lost.kept_step) == (40 - kept, kept)
    assert measured.training == pytest.approx(0.02 * (40 - kept))


def test_a_cluster_that_is_silent_has_nothing_started_again(loop: Loop, home: Path) -> None:
    job = submit(loop, home, "run", steps=60)
    turn(loop, lambda: state(loop, job) == State.RUNNING)
    executor(loop).away = True
    later = submit(loop, home, "later")
    for _ in range(20):
        loop.look()
        time.sleep(0.02)
    assert state(loop, job) in (State.RUNNING, State.SUCCEEDED)
    assert loop.trouble is not None or state(loop, later) != State.RUNNING
    executor(loop).away = False
    turn(loop, lambda: ended(loop))
    assert starts(home, "run") == [0]


def test_an_attempt_without_a_record_begins_again_on_another_cluster(
    loop: Loop, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster had begun it and died before its process wrote anything."""
    with monkeypatch.context() as patch:
        patch.setattr(executor(loop), "submit", lambda start: None)
        job = submit(loop, home, "run", steps=2)
        turn(loop, lambda: state(loop, job) == State.STARTING)
    loop.ledger.mark_started(loop.ledger.job(job.id))
    loop.look()
    assert state(loop, job) == State.RUNNING  # the cluster that it began on still answers
    monkeypatch.setattr(executor(loop), "incarnation", lambda: "second")
    turn(loop, lambda: ended(loop))
    assert [attempt.outcome for attempt in loop.ledger.attempts(job.id)] == ["lost", "succeeded"]


def test_failures_are_tried_as_often_as_asked_and_mistakes_never(loop: Loop, home: Path) -> None:
    twice = submit(loop, home, "twice", steps=1, code=1, retries=1)
    mistake = submit(loop, home, "mistake", steps=1, code=2, retries=5)
    follower = submit(loop, home, "follower", after=[mistake.id])
    turn(loop, lambda: ended(loop))
    assert len(loop.ledger.attempts(twice.id)) == 2
    assert state(loop, twice) == State.FAILED
    assert len(loop.ledger.attempts(mistake.id)) == 1
    assert loop.ledger.job(follower.id).reason == f"it comes after job {mistake.id}, which is failed"


def test_a_stopped_job_ends_in_order_and_one_that_is_deaf_is_killed(loop: Loop, home: Path) -> None:
    loop.config.stop_timeout = 1.0
    job, deaf = submit(loop, home, "run", steps=10_000), submit(loop, home, "deaf", steps=10_000)
    turn(loop, lambda: all((home / name / "steps.jsonl").exists() for name in ("run", "deaf")))
    stub = psutil.Process(executor(loop).pid(f"{deaf.id}-a1")).children()[0]
    os.kill(stub.pid, signal.SIGSTOP)
    for one in (job, deaf):
        loop.ledger.change(loop.ledger.job(one.id), State.STOPPING, "anna", "stopped by anna")
    turn(loop, lambda: ended(loop))
    assert [state(loop, one) for one in (job, deaf)] == [State.STOPPED] * 2
    assert loop.ledger.attempts(job.id)[0].code == 143
    assert steps(home, "run")[-1] == max(int(path.name[5:]) for path in (home / "run").glob("checkpoints/*"))


def test_time_that_is_over_ends_a_job_and_a_clock_that_jumps_does_not(
    loop: Loop, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.services.repeating import SteadyClock

    loop.ledger.now = SteadyClock()
    bounded = submit(loop, home, "bounded", steps=10_000, max_seconds=1.0)
    day = submit(loop, home, "day", steps=100, max_seconds=3600.0)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    turn(loop, lambda: ended(loop))
    assert state(loop, bounded) == State.STOPPED
    assert "as long as it may" in loop.ledger.job(bounded.id).reason
    assert state(loop, day) == State.SUCCEEDED


def test_a_cluster_without_work_rests_until_the_next_job_and_what_it_has_stays_known(loop: Loop, home: Path) -> None:
    told: list[bool] = []
    loop.rest = told.append
    assert loop.look() is False and told == []
    loop._worked -= loop.config.rest + 1
    assert loop.look() is False and loop.look() is False and told == [True]
    assert loop.capacity is not None and loop.resources() is not None
    job = submit(loop, home, "run", steps=2)
    assert loop.look() is True and told == [True, False]
    turn(loop, lambda: ended(loop))
    assert state(loop, job) == State.SUCCEEDED and told == [True, False]


def test_two_services_on_one_ledger_start_no_job_twice(loop: Loop, home: Path) -> None:
    other = make_loop(f"sqlite:///{home}/ledger.db", home)
    try:
        jobs = [submit(loop, home, f"r{number}", steps=2) for number in range(4)]
        deadline = time.monotonic() + PATIENCE
        while not ended(loop):
            assert time.monotonic() < deadline
            for one in (loop, other):
                with contextlib.suppress(Exception):
                    one._take()
                one.look()
            active = [job for job in loop.ledger.jobs() if job.state in (State.STARTING, State.RUNNING)]
            assert len(active) <= 2
    finally:
        other.ledger.database.close()
    assert all(starts(home, f"r{number}") == [0] for number in range(4))
    assert all(len(loop.ledger.attempts(job.id)) == 1 for job in jobs)


def test_a_stopped_service_leaves_everything_to_the_next(loop: Loop, home: Path) -> None:
    job = submit(loop, home, "run", steps=200)
    turn(loop, lambda: (home / "run" / "steps.jsonl").exists())
    loop.start()
    assert loop.quiesce(60, threading.Event())
    loop.stop()
    assert state(loop, job) == State.WAITING
    assert [one.cause for one in loop.ledger.attempts(job.id)] == ["shutdown"]  # and no other job is blamed
    following = make_loop(f"sqlite:///{home}/ledger.db", home)
    try:
        turn(following, lambda: ended(following))
    finally:
        following.ledger.database.close()
    assert steps(home, "run") == list(range(1, 201))


@pytest.mark.parametrize(
    ("before", "code", "same", "after", "outcome"),
    [
        (State.RUNNING, 0, True, State.SUCCEEDED, "succeeded"),
        (State.STOPPING, 0, True, State.SUCCEEDED, "succeeded"),
        (State.STOPPING, 143, True, State.STOPPED, "stopped"),
        (State.STOPPING, 1, True, State.STOPPED, "stopped"),
        (State.YIELDING, 75, True, State.WAITING, "yielded"),
        (State.YIELDING, 143, True, State.WAITING, "yielded"),
        (State.RUNNING, 143, True, State.WAITING, "yielded"),
        (State.RUNNING, 2, True, State.FAILED, "failed"),
        (State.RUNNING, 1, True, State.FAILED, "failed"),
        (State.RUNNING, 1, False, State.WAITING, "lost"),
        (State.RUNNING, 2, False, State.WAITING, "lost"),
        (State.RUNNING, 69, True, State.WAITING, "lost"),
        (State.RUNNING, 137, False, State.WAITING, "lost"),
    ],
)
def test_what_becomes_of_a_job(before: State, code: int, same: bool, after: State, outcome: str) -> None:
    job = Job(state=before, reason="", retries=0, failures=0, losses=0)
    verdict = judge_exit(job, code, same)
    assert (verdict.state, verdict.outcome) == (after, outcome)


def test_what_vanishes_too_often_is_lost() -> None:
    job = Job(state=State.RUNNING, reason="", losses=5)
    assert judge_vanishing(job, "gone", 5).state == State.LOST
    assert judge_vanishing(Job(state=State.RUNNING, reason="", losses=4), "gone", 5).state == State.WAITING
    assert judge_vanishing(Job(state=State.STOPPING, reason="", losses=9), "gone", 5).state == State.STOPPED


def test_a_cluster_without_a_node_yet_is_no_reason_that_a_job_never_starts(loop: Loop, home: Path) -> None:
    job = submit(loop, home, "run", steps=1)
    loop._take()
    loop.capacity = Capacity((), 1)
    operations = Operations(loop.ledger, loop, loop.config)
    why = operations.why(Person("root", "admin"), job.id)
    assert (why.kind, why.text) == ("cluster", "the cluster does not answer: none of its nodes is there yet")


def test_a_cluster_that_fails_again_and_again_costs_a_job_nothing_and_signals_have_names() -> None:
    job = Job(state=State.RUNNING, reason="", retries=0, failures=0, losses=5)
    verdict = judge_exit(job, 137, False)
    assert (verdict.state, verdict.values) == (State.WAITING, {})
    assert verdict.reason.startswith("the cluster went away under it (ended by SIGKILL, exit code 137)")
    verdict = judge_vanishing(job, "it was not started in 600 s", 5, counts=False)
    assert (verdict.state, verdict.values) == (State.WAITING, {})
    assert judge_exit(job, 134, True).reason == "ended by SIGABRT, exit code 134: see its log"
    assert judge_exit(job, -11, True).reason == "ended by SIGSEGV, exit code -11: see its log"
    assert judge_exit(job, 1, True).reason == "exit code 1: see its log"


def begin(loop: Loop, job: Job) -> Job:
    bring(loop.ledger, loop.ledger.job(job.id), State.STARTING)
    return loop.ledger.job(job.id)


def end_with(home: Path, job: Job, code: int) -> None:
    """Writes the record of a runner whose command has ended."""
    attempt = attempt_of(home, job.id, job.attempt)
    descriptor = attempt.hold()
    assert descriptor is not None
    os.close(descriptor)
    attempt.write(code=code)


def test_trouble_of_the_machine_ends_no_job_and_the_next_attempt_waits_a_while(
    loop: Loop, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that met a full disk ends with 69: its job waits, and begins again after a pause that grows."""
    now, handed = [time.time()], list[Any]()
    monkeypatch.setattr(loop.ledger, "now", lambda: now[0])
    monkeypatch.setattr(loop.executor, "submit", handed.append)
    job = submit(loop, home, "run", steps=1)
    loop._take()
    for number, pause in ((1, 0.0), (2, 1.0), (3, 5.0)):
        begun = begin(loop, job)
        loop.attempts.hand_over(begun)
        if pause:
            assert len(handed) == number - 1 and "met a full disk" in loop.attempts.pending[f"{job.id}-a{number}"]
            now[0] += pause
            loop.attempts.hand_over(begun)
        assert len(handed) == number
        end_with(home, begun, 69)
        loop.attempts.settle(begun, None)
        assert state(loop, job) == State.WAITING
    assert {one.cause for one in loop.ledger.attempts(job.id)} == {"trouble"}


def test_a_failure_is_judged_when_the_end_of_the_cluster_can_have_shown(loop: Loop, home: Path) -> None:
    """A command fails because its cluster goes away, some moments before the cluster itself does not answer."""
    loop.attempts.settling = 60.0
    job = submit(loop, home, "run", steps=1)
    loop._take()
    begun = begin(loop, job)
    loop.attempts.hand_over(begun)
    executor(loop).kill(describe_attempt(begun))
    for path in (home / "jobs" / job.id).glob("a1.*"):
        path.unlink()
    end_with(home, begun, 2)
    loop.attempts.settle(begun, None)
    assert state(loop, job) == State.STARTING
    executor(loop).away = True
    loop.attempts.settling = 0.0
    loop.attempts.settle(begun, None)
    assert (state(loop, job), loop.ledger.attempts(job.id)[0].cause) == (State.WAITING, "cluster")
