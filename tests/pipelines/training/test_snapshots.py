"""Runs in a bucket: what another machine finds after any end of the first, and whose word counts."""

import hashlib
import itertools
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.model.errors import ServiceError
from dragoman.model.runs import attempts, checkpoints
from dragoman.model.storage import remote, retry
from dragoman.model.storage.mirror import Remote, remote_of
from dragoman.model.storage.places import local_folder
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.training import checkpoint, publishing, snapshots
from tests.s3_server import Proxy

ALONE = Ranks(0, 1, torch.device("cpu"))


class Machine:
    """A machine with a cache of its own, and the folder of one run on it."""

    def __init__(self, folder: Path, name: str, run: str) -> None:
        self.cache = folder / name
        self.run = local_folder(f"s3://bucket/runs/{run}", str(self.cache))
        self.run.mkdir(parents=True, exist_ok=True)
        found = remote_of(self.run)
        assert found is not None
        self.elsewhere: Remote = found

    def save(self, step: int, attempt: int) -> None:
        tensors = {"network": {"w": torch.full((4, 4), float(step))}}
        checkpoint.write(self.run, step, attempt, tensors, {"step": step})
        checkpoint.prune(self.run, 1, lambda steps: sorted(steps)[-2:])
        (self.run / "steps.jsonl").write_text("line\n" * step, encoding="utf-8")

    def content(self) -> dict[str, bytes]:
        return {name: (self.run / name).read_bytes() for name in sorted(snapshots._names(self.run))}

    def step(self) -> int:
        newest = checkpoints.newest(self.run)
        return checkpoints.state(newest)["step"] if newest else 0


@pytest.fixture
def machines(s3: Proxy, tmp_path: Path, request: pytest.FixtureRequest) -> "itertools.chain[Machine]":
    names = (f"machine {number}" for number in itertools.count())
    return itertools.chain.from_iterable([Machine(tmp_path, name, request.node.name)] for name in names)


def test_another_machine_goes_on_with_the_same_files(machines: "itertools.chain[Machine]", s3: Proxy) -> None:
    first, second = next(machines), next(machines)
    attempt = snapshots.begin(first.run, first.elsewhere)
    for step in (1, 2, 3):
        first.save(step, attempt)
        snapshots.send(first.run, first.elsewhere, attempt)
    s3.requests.clear()
    snapshots.send(first.run, first.elsewhere, attempt)
    assert not [request for request in s3.requests if request.startswith("PUT")], "what is there is not sent again"
    assert snapshots.begin(second.run, second.elsewhere) == attempt + 1
    mine, theirs = first.content(), second.content()
    mine.pop("attempt"), theirs.pop("attempt")
    assert mine == theirs and second.step() == 3


def test_what_a_run_has_no_more_goes_elsewhere_too(machines: "itertools.chain[Machine]", s3: Proxy) -> None:
    first, second = next(machines), next(machines)
    attempt = snapshots.begin(first.run, first.elsewhere)
    for step in range(1, 6):
        first.save(step, attempt)
        snapshots.send(first.run, first.elsewhere, attempt)
    assert [request for request in s3.requests if request.startswith("DELETE")]
    snapshots.pull(second.run, second.elsewhere)
    assert [path.name for path in (second.run / "checkpoints").iterdir()] == ["step-00000005"]


def test_a_number_to_begin_at_that_is_too_low_or_lost_does_no_harm(machines: "itertools.chain[Machine]") -> None:
    """As an attempt leaves it that wakes up between its commit and this note of it."""
    first = next(machines)
    attempt = snapshots.begin(first.run, first.elsewhere)
    for step in (1, 2):
        first.save(step, attempt)
        snapshots.send(first.run, first.elsewhere, attempt)
    remote.write(first.elsewhere.at("head.json"), b"1")
    found = snapshots.newest(first.elsewhere)
    remote.delete(first.elsewhere.at("head.json"))
    assert found == snapshots.newest(first.elsewhere) and found.number == 3


def test_a_bucket_that_was_emptied_leaves_the_folder_and_gets_it_again(machines: "itertools.chain[Machine]") -> None:
    first, second = next(machines), next(machines)
    attempt = snapshots.begin(first.run, first.elsewhere)
    first.save(1, attempt)
    snapshots.send(first.run, first.elsewhere, attempt)
    for name in ("head.json", "snapshots/000001.json", "snapshots/000002.json"):
        remote.delete(first.elsewhere.at(name))
    with publishing.publisher(first.run, ALONE):
        assert first.step() == 1
    snapshots.pull(second.run, second.elsewhere)
    assert second.step() == 1


def test_an_attempt_that_was_overtaken_publishes_nothing(machines: "itertools.chain[Machine]") -> None:
    first, second, third = next(machines), next(machines), next(machines)
    attempt = snapshots.begin(first.run, first.elsewhere)
    first.save(1, attempt)
    snapshots.send(first.run, first.elsewhere, attempt)
    later = snapshots.begin(second.run, second.elsewhere)
    first.save(2, attempt)
    with pytest.raises(attempts.StaleAttemptError, match=f"attempt {attempt} was replaced by attempt {later}"):
        snapshots.send(first.run, first.elsewhere, attempt)
    assert not publishing.pull_own(first.run), "the end of its record is not sent either"
    with pytest.raises(attempts.StaleAttemptError):
        first.save(3, attempt)
    with pytest.raises(attempts.StaleAttemptError):
        publishing.publish(first.run)
    snapshots.pull(third.run, third.elsewhere)
    assert third.step() == 1


def test_a_commit_that_races_with_a_start_is_kept_or_refused(
    machines: "itertools.chain[Machine]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old attempt commits between the new one's look and its claim."""
    first, second = next(machines), next(machines)
    attempt = snapshots.begin(first.run, first.elsewhere)
    commit, raced = snapshots._commit, []

    def racing(run: Path, elsewhere: Remote, snapshot: snapshots.Snapshot) -> None:
        if run == second.run and not raced:
            raced.append(True)
            first.save(1, attempt)
            snapshots.send(first.run, first.elsewhere, attempt)
        commit(run, elsewhere, snapshot)

    monkeypatch.setattr(snapshots, "_commit", racing)
    snapshots.begin(second.run, second.elsewhere)
    assert second.step() == 1
    first.save(2, attempt)
    with pytest.raises(attempts.StaleAttemptError):
        snapshots.send(first.run, first.elsewhere, attempt)


def test_an_end_between_any_two_requests_leaves_a_whole_snapshot(
    s3: Proxy, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    finished = 0
    for requests in itertools.count():
        run = f"{request.node.name}-{requests}"
        first, second = Machine(tmp_path, f"a{requests}", run), Machine(tmp_path, f"b{requests}", run)
        first.elsewhere = replace(first.elsewhere, deadline=0.2)
        attempt = snapshots.begin(first.run, first.elsewhere)
        first.save(1, attempt)
        snapshots.send(first.run, first.elsewhere, attempt)
        first.save(2, attempt)
        s3.fault("away", after=requests, times=1e9)
        try:
            snapshots.send(first.run, first.elsewhere, attempt)
            finished += 1
        except ServiceError:
            pass
        s3.faults.clear()
        snapshots.pull(second.run, second.elsewhere)
        newest = checkpoints.newest(second.run)
        assert newest is not None and second.step() in (1, 2)
        assert torch.equal(checkpoint.read(newest)[0]["network"]["w"], torch.full((4, 4), float(second.step())))
        if finished:
            break
    assert requests > 5 and second.step() == 2


def test_a_remote_that_is_away_stops_nothing_and_gets_all_when_it_is_back(
    machines: "itertools.chain[Machine]", s3: Proxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshots, "PATIENCE", 0.1)
    monkeypatch.setattr(snapshots, "EVERY", 0.05)
    monkeypatch.setattr(snapshots, "AGAIN", 0.1)
    first, second = next(machines), next(machines)
    caplog.set_level(logging.INFO)
    with publishing.publisher(first.run, ALONE) as publish:
        s3.fault("away", times=1e9)
        for step in (1, 2, 3):
            first.save(step, publish.attempt)
        time.sleep(0.5)
        assert first.step() == 3 and "wait in" in caplog.text
        s3.faults.clear()
        ends = time.monotonic() + 20
        while "had to wait is sent" not in caplog.text and time.monotonic() < ends:
            time.sleep(0.05)
    snapshots.pull(second.run, second.elsewhere)
    assert second.step() == 3 and "had to wait is sent" in caplog.text


def test_a_send_that_failed_is_tried_again_later_and_sends_what_is_missing(
    machines: "itertools.chain[Machine]", s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "PATIENCE", 0.1)
    monkeypatch.setattr(snapshots, "EVERY", 0.05)
    monkeypatch.setattr(snapshots, "AGAIN", 1e6)
    first = next(machines)
    with publishing.publisher(first.run, ALONE) as publish:
        s3.requests.clear()
        away = s3.fault("away", "PUT", "/snapshots/", times=1e9)
        first.save(1, publish.attempt)
        time.sleep(1.0)
        tried = 1e9 - away.times
        s3.faults.clear()
    large = (first.run / "checkpoints" / "step-00000001" / "network.safetensors").read_bytes()
    uploads = [one for one in s3.requests if one.startswith("PUT") and hashlib.sha256(large).hexdigest() in one]
    assert 0 < tried < 10, "one try and its repeats within the patience"
    assert len(uploads) == 1


def test_a_remote_that_stays_away_is_said_at_the_end_and_the_same_machine_goes_on(
    s3: Proxy, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Machine(tmp_path, "first", request.node.name)
    second = Machine(tmp_path, "second", request.node.name)
    monkeypatch.setattr(snapshots, "PATIENCE", 0.3)
    with pytest.raises(ServiceError, match="same command"), publishing.publisher(first.run, ALONE) as publish:
        monkeypatch.setattr(retry, "DEADLINE", 0.3)
        s3.fault("away", times=1e9)
        first.save(1, publish.attempt)
    monkeypatch.undo()
    s3.faults.clear()
    with publishing.publisher(first.run, ALONE):
        assert first.step() == 1
    snapshots.pull(second.run, second.elsewhere)
    assert second.step() == 1


def test_a_loop_that_fails_leaves_its_last_checkpoint(machines: "itertools.chain[Machine]") -> None:
    first, second = next(machines), next(machines)
    with pytest.raises(OSError, match="No space"), publishing.publisher(first.run, ALONE) as publish:
        first.save(1, publish.attempt)
        raise OSError(28, "No space left on device", "checkpoints")
    snapshots.pull(second.run, second.elsewhere)
    assert second.step() == 1


def test_nothing_is_sent_before_all_ranks_have_the_files(
    machines: "itertools.chain[Machine]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "EVERY", 0.01)
    first = next(machines)
    with publishing.publisher(first.run, ALONE) as publish:
        first.save(1, publish.attempt)
    seen: list[int] = []

    class Slow(Ranks):
        def wait(self) -> None:
            seen.append(snapshots.newest(first.elsewhere).number)
            time.sleep(0.5)
            seen.append(snapshots.newest(first.elsewhere).number)

    with publishing.publisher(first.run, Slow(0, 1, torch.device("cpu"))):
        assert len(set(seen)) == 1


def test_a_plain_folder_is_not_sent(tmp_path: Path) -> None:
    with publishing.publisher(tmp_path, ALONE) as publish:
        assert publish.attempt == 1
    publishing.publish(tmp_path)
    publishing.pull(tmp_path)
