"""What crosses between a command and its first rank on another node."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.pipelines.cluster.bridge import Bridge, BridgeActor, WorkerLink
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.tasks.ends import ends_of
from dragoman.pipelines.training import publishing, snapshots, stopping


@pytest.fixture
def config(tmp_path: Path) -> Config:
    paths = PathsConfig(root="s3://bucket/home", runs="s3://bucket/home/runs", cache=str(tmp_path / "command"))
    return Config(name="run", paths=paths, cluster=ClusterConfig(address="somewhere:6379", workers="1..2"))


class Local:
    """An actor in this process: a method's `remote` gives its result, which `ray.get` hands on."""

    def __init__(self, thing: object) -> None:
        for name in ("leave_for_rank", "exchange", "take"):
            setattr(self, name, SimpleNamespace(remote=getattr(thing, name)))


class Sides:
    """The bridge of a group of workers and its first rank's side, both here."""

    def __init__(self, config: Config, size: int, sizes: tuple[int, ...] = (1, 2), room: int = 0) -> None:
        self.ends, mailbox = ends_of(config), Local(BridgeActor())
        self.bridge = Bridge(self.ends, sizes, size, mailbox, lambda more: more <= room, resize_every=0.0)
        self.courier = WorkerLink(self.ends, mailbox)

    def carry(self) -> None:
        """Both look, the rank first."""
        self.courier.exchange(obey=True)
        self.bridge.look()


@pytest.fixture(autouse=True)
def _results_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.pipelines.cluster.bridge.ray.get", lambda result: result)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run's folder on another machine, which this process plays from now on."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "node"))
    return tmp_path / "node" / "dragoman-mirror" / "s3" / "bucket" / "home" / "runs" / "run"


def test_a_journal_comes_line_by_line_and_anew_where_another_follows_it(config: Config, node: Path) -> None:
    both = Sides(config, 2)
    here = config.run_dir / "steps.jsonl"
    node.mkdir(parents=True)
    for content, seen in (('{"a":1}\n{"b"', '{"a":1}\n'), ('{"a":1}\n{"b":2}\n', '{"a":1}\n{"b":2}\n')):
        (node / "steps.jsonl").write_text(content)
        both.carry()
        assert here.read_text() == seen
    (node / "next").write_text('{"c":3}\n')
    (node / "next").rename(node / "steps.jsonl")
    both.carry()
    assert here.read_text() == '{"c":3}\n'


def test_what_lies_on_a_node_from_long_ago_does_not_come(
    config: Config, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "pull", lambda run, elsewhere: None)
    ends = ends_of(config)
    node.mkdir(parents=True)
    (node / "steps.jsonl").write_text('{"a":1}\n')
    ends.begin()
    assert ends.tell({}) == {}
    publishing.pull(node)  # as the first rank does it before anything else
    assert ends.tell({})["steps.jsonl"].content == b'{"a":1}\n'


def test_what_is_asked_of_the_command_reaches_the_node_and_the_next_group_is_asked_anew(
    config: Config, node: Path
) -> None:
    ends = ends_of(config)
    assert ends.asked() is None
    ends.stop("a node goes away")
    ends.ask(ends.asked() or "")
    ends.pause()
    assert (stopping.read_request(node), stopping.read_reason(node)) == (75, "a node goes away")
    assert stopping.is_paused(node)
    ends.begin()
    assert not stopping.is_asked(node)
    assert stopping.read_request(config.run_dir) == 75, "the command's own request stays"


def test_a_first_rank_in_the_commands_own_folder_is_sent_nothing(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAGOMAN_CACHE", raising=False)
    ends = ends_of(config)
    stopping.request_stop(config.run_dir, 130, "SIGINT")
    ends.ask("75\nanother")
    ends.begin()
    assert stopping.read_request(config.run_dir) == 130
    assert ends.tell({}) == {}


@pytest.mark.parametrize(("sizes", "paused"), [((1, 2), True), ((2,), False), ((2, 4), False)])
def test_a_drained_node_pauses_a_group_that_can_go_on_without_it_and_ends_another(
    config: Config, node: Path, sizes: tuple[int, ...], paused: bool
) -> None:
    both = Sides(config, 2, sizes)
    both.courier._leaving = 1
    for _ in range(3):  # noticed, asked for, done
        both.carry()
    assert stopping.is_paused(node) == paused
    assert (stopping.read_reason(config.run_dir) == "") == paused
    assert (stopping.read_request(node) == stopping.YIELDED) == (not paused)


@pytest.mark.parametrize(("room", "paused"), [(0, False), (1, False), (2, True), (6, True)])
def test_a_group_is_paused_when_there_is_room_for_one_of_another_size(
    config: Config, node: Path, room: int, paused: bool
) -> None:
    both = Sides(config, 2, (1, 2, 4, 8), room)
    both.carry()
    both.carry()
    assert stopping.is_paused(node) == paused


def test_a_worker_that_has_ended_is_asked_nothing_more(config: Config, node: Path) -> None:
    both = Sides(config, 2)
    node.mkdir(parents=True)
    both.ends.stop("too late")
    both.bridge.look()
    both.courier.exchange(obey=False)
    assert stopping.read_request(node) is None
