"""The micro-batcher: order, batching, bounds, failures."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait

import pytest

from dragoman.services.endpoint.batcher import Batcher, EngineStoppedError, QueueFullError
from tests.services.endpoint.conftest import submit

Texts = Batcher[str, str, str]


class Gate:
    """An engine that waits until it is opened, and remembers its batches."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.batches: list[tuple[str, list[str], int]] = []

    def translate(self, engine: str, lines: list[str], nbest: int) -> list[str]:
        self.batches.append((engine, lines, nbest))
        self.entered.set()
        assert self.open.wait(60)
        if "bad" in lines:
            raise ValueError("bad line")
        if "deadly" in lines:
            raise SystemExit
        return [f"{engine}:{line}" for line in lines]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def batcher(gate: Gate) -> Iterator[Texts]:
    batcher = Batcher(gate.translate, limit=4, capacity=10)
    batcher.start()
    yield batcher
    gate.open.set()
    batcher.stop(60)


def block(batcher: Texts, gate: Gate) -> "Future[list[str]]":
    """Occupy the thread with a request, so that what comes next queues."""
    first = submit(batcher, "a", ["first"])
    assert gate.entered.wait(60)
    return first


def test_what_queues_while_the_engine_works_becomes_one_batch_of_at_most_the_limit(batcher: Texts, gate: Gate) -> None:
    block(batcher, gate)
    futures = [submit(batcher, "a", [f"{number}0", f"{number}1"]) for number in range(3)]
    gate.open.set()
    assert [future.result(60) for future in futures] == [[f"a:{n}0", f"a:{n}1"] for n in range(3)]
    assert [len(lines) for _, lines, _ in gate.batches] == [1, 4, 2]


def test_a_request_longer_than_a_batch_is_answered_whole_and_in_order(batcher: Texts, gate: Gate) -> None:
    gate.open.set()
    lines = [str(number) for number in range(10)]
    assert submit(batcher, "a", lines).result(60) == [f"a:{line}" for line in lines]
    assert batcher.queued == 0


def test_a_request_keeps_the_engine_it_came_with_and_batches_are_of_one_kind(batcher: Texts, gate: Gate) -> None:
    block(batcher, gate)
    asked = [("a", 1), ("b", 1), ("a", 1), ("a", 2)]
    futures = [submit(batcher, engine, [f"{number}"], nbest) for number, (engine, nbest) in enumerate(asked)]
    gate.open.set()
    assert [future.result(60) for future in futures] == [["a:0"], ["b:1"], ["a:2"], ["a:3"]]
    assert gate.batches[1:] == [("a", ["0", "2"], 1), ("b", ["1"], 1), ("a", ["3"], 2)]


def test_a_bad_line_fails_its_own_request_only(batcher: Texts, gate: Gate) -> None:
    block(batcher, gate)
    good, bad = submit(batcher, "a", ["x"]), submit(batcher, "a", ["y", "bad"])
    gate.open.set()
    assert good.result(60) == ["a:x"]
    with pytest.raises(ValueError, match="bad line"):
        bad.result(60)
    assert batcher.alive


def test_the_rest_of_a_failed_request_leaves_the_queue(batcher: Texts, gate: Gate) -> None:
    gate.open.set()
    failed = submit(batcher, "a", ["bad", *["x"] * 8])
    with pytest.raises(ValueError, match="bad line"):
        failed.result(60)
    assert batcher.queued == 0
    assert submit(batcher, "a", ["z"]).result(60) == ["a:z"]


def test_a_cancelled_request_is_not_translated(batcher: Texts, gate: Gate) -> None:
    block(batcher, gate)
    gone, stays = submit(batcher, "a", ["gone"]), submit(batcher, "a", ["stays"])
    gone.cancel()
    gate.open.set()
    assert stays.result(60) == ["a:stays"]
    assert all("gone" not in lines for _, lines, _ in gate.batches)
    assert batcher.queued == 0


def test_stopping_finishes_what_is_queued_and_refuses_what_comes(gate: Gate) -> None:
    batcher = Batcher(gate.translate, limit=4, capacity=10)
    batcher.start()
    futures = [block(batcher, gate), submit(batcher, "a", ["x"])]
    threading.Timer(0.05, gate.open.set).start()
    batcher.stop(60)
    assert not wait(futures, 60).not_done
    assert futures[1].result() == ["a:x"]
    with pytest.raises(EngineStoppedError):
        submit(batcher, "a", ["late"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_is_seen_and_fails_what_waits(batcher: Texts, gate: Gate) -> None:
    block(batcher, gate)
    futures = [submit(batcher, "a", ["deadly"]), submit(batcher, "b", ["x"])]
    gate.open.set()
    for future in futures:
        with pytest.raises(EngineStoppedError):
            future.result(60)
    batcher._short.thread.join(60)
    assert not batcher.alive
    with pytest.raises(EngineStoppedError):
        submit(batcher, "a", ["y"])


def test_a_long_request_is_decoded_beside_the_short_ones() -> None:
    opened, entered = threading.Event(), threading.Event()

    def translate(_: str, lines: list[str], nbest: int) -> list[str]:
        if "long" in lines:
            entered.set()
            assert opened.wait(60)
        return lines

    batcher: Texts = Batcher(translate, tokens=lambda line: 100 if line == "long" else 1, turn=100)
    batcher.start()
    slow = submit(batcher, "a", ["long", "long"])
    assert entered.wait(60)
    assert submit(batcher, "a", ["short"]).result(60) == ["short"]
    slow.cancel()  # its second turn is not taken
    opened.set()
    batcher.stop(60)
    assert batcher.queued == 0


def test_long_requests_that_fill_their_queue_leave_the_short_ones_room(gate: Gate) -> None:
    batcher: Texts = Batcher(gate.translate, limit=4, capacity=10, turn=5)
    batcher.start()
    long = submit(batcher, "a", ["x"] * 10)
    assert gate.entered.wait(60)
    assert batcher.queued == 6
    with pytest.raises(QueueFullError):
        submit(batcher, "a", ["x"] * 6)
    short = submit(batcher, "a", ["y"])
    gate.open.set()
    assert short.result(60) == ["a:y"]
    assert len(long.result(60)) == 10
    batcher.stop(60)
