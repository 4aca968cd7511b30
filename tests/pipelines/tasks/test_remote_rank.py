"""What crosses between a command and its first rank on another node. Ray Train is loaded by the tests alone."""

import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.pipelines.training import stopping


class Sides:
    """A command and its first rank, both here, with a folder each unless the rank has the command's own."""

    def __init__(
        self, folder: Path, size: int = 2, sizes: tuple[int, ...] = (1, 2), room: int = 0, own: bool = False
    ) -> None:
        from dragoman.pipelines.cluster.link import Messages
        from dragoman.pipelines.tasks.remote_rank import CommandSide, RankSide

        self.here, self.there = folder / "command", folder / ("command" if own else "node")
        self.here.mkdir()
        self.there.mkdir(exist_ok=True)
        messages = Messages()
        self.command = CommandSide(self.here, sizes, 0.0, messages, size, lambda more: more <= room)
        self.rank = RankSide(self.there, messages, own)

    def carry(self, last: bool = False) -> None:
        """Both look, the rank first."""
        self.rank.exchange(last)
        self.command.look()


def test_a_journal_comes_line_by_line_and_anew_where_another_follows_it(tmp_path: Path) -> None:
    both = Sides(tmp_path)
    here, there = both.here / "steps.jsonl", both.there / "steps.jsonl"
    for content, seen in (('{"a":1}\n{"b"', '{"a":1}\n'), ('{"a":1}\n{"b":2}\n', '{"a":1}\n{"b":2}\n')):
        there.write_text(content)
        both.carry()
        assert here.read_text() == seen
    (both.there / "next").write_text('{"c":3}\n')
    (both.there / "next").rename(there)
    both.carry()
    assert here.read_text() == '{"c":3}\n'


def test_what_is_asked_of_the_command_reaches_the_node_and_the_next_group_is_asked_anew(tmp_path: Path) -> None:
    both = Sides(tmp_path)
    stopping.request_stop(both.here, stopping.YIELDED, "a node goes away")
    both.command.look()
    both.rank.exchange(last=False)
    assert (stopping.read_request(both.there), stopping.read_reason(both.there)) == (75, "a node goes away")
    stopping.request_pause(both.there)
    both.rank.begin()
    assert not stopping.is_asked(both.there)
    assert stopping.read_request(both.here) == 75, "the command's own request stays"


def test_a_first_rank_in_the_commands_own_folder_is_sent_nothing(tmp_path: Path) -> None:
    both = Sides(tmp_path, own=True)
    (both.here / "steps.jsonl").write_text('{"a":1}\n')
    stopping.request_stop(both.here, 130, "SIGINT")
    both.rank.begin()
    both.carry()
    both.carry()
    assert stopping.read_request(both.here) == 130
    assert (both.here / "steps.jsonl").read_text() == '{"a":1}\n'


@pytest.mark.parametrize(("sizes", "paused"), [((1, 2), True), ((2,), False), ((2, 4), False)])
def test_a_drained_node_pauses_a_group_that_can_go_on_without_it_and_ends_another(
    tmp_path: Path, sizes: tuple[int, ...], paused: bool
) -> None:
    both = Sides(tmp_path, 2, sizes)
    both.rank.leaving = 1
    for _ in range(3):  # noticed, asked for, done
        both.carry()
    assert stopping.is_paused(both.there) == paused
    assert (stopping.read_reason(both.here) == "") == paused
    assert (stopping.read_request(both.there) == stopping.YIELDED) == (not paused)


@pytest.mark.parametrize(("room", "paused"), [(0, False), (1, False), (2, True), (6, True)])
def test_a_group_is_paused_when_there_is_room_for_one_of_another_size(tmp_path: Path, room: int, paused: bool) -> None:
    both = Sides(tmp_path, 2, (1, 2, 4, 8), room)
    for _ in range(3):
        both.carry()
    assert stopping.is_paused(both.there) == paused


def test_a_worker_that_has_ended_is_asked_nothing_more(tmp_path: Path) -> None:
    both = Sides(tmp_path)
    stopping.request_stop(both.here, stopping.YIELDED, "too late")
    both.command.look()
    both.carry(last=True)
    assert stopping.read_request(both.there) is None


def test_a_call_that_fails_once_does_not_end_the_commands_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.pipelines.cluster.link import LinkError, Messages
    from dragoman.pipelines.tasks import remote_rank

    monkeypatch.setattr(remote_rank, "EVERY", 0.01)
    failed = threading.Event()

    class FailsOnce(Messages):
        name = "here"

        def take(self, *words: Any) -> Any:
            if not failed.is_set():
                failed.set()
                raise LinkError("a node's network was away for a moment")
            return super().take(*words)

    messages: Any = FailsOnce()
    with remote_rank.follow_group(tmp_path, (1,), 0.0, messages, 1, lambda more: False):
        assert failed.wait(20)
        stopping.request_stop(tmp_path, 130, "SIGINT")
    assert messages.exchange({}, 0)[0] is not None, "the request has passed"
