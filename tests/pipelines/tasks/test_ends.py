"""What crosses between a command and its first rank on another node."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.cluster.bridge import Bridge
from pipelines.config import Config, PathsConfig
from pipelines.settings import ClusterConfig
from pipelines.tasks.ends import ends_of
from pipelines.training import publishing, snapshots, stopping


@pytest.fixture
def config(tmp_path: Path) -> Config:
    paths = PathsConfig(root="s3://bucket/home", runs="s3://bucket/home/runs", cache=str(tmp_path / "command"))
    return Config(name="run", paths=paths, cluster=ClusterConfig(address="somewhere:6379", workers="1..2"))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run's folder on another machine, which this process plays from now on."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "node"))
    return tmp_path / "node" / "dragoman-mirror" / "s3" / "bucket" / "home" / "runs" / "run"


def test_a_journal_comes_line_by_line_and_anew_where_another_follows_it(config: Config, node: Path) -> None:
    ends = ends_of(config)
    bridge = Bridge(ends, (1, 2))
    here = config.run_dir / "steps.jsonl"
    node.mkdir(parents=True)
    have: dict[str, tuple[int, int]] = bridge._have
    for content, seen in (('{"a":1}\n{"b"', '{"a":1}\n'), ('{"a":1}\n{"b":2}\n', '{"a":1}\n{"b":2}\n')):
        (node / "steps.jsonl").write_text(content)
        for name, piece in ends.tell(have).items():
            bridge._keep(name, piece)
        assert here.read_text() == seen
    assert ends.tell(have) == {}
    (node / "next").write_text('{"c":3}\n')
    (node / "next").rename(node / "steps.jsonl")
    for name, piece in ends.tell(have).items():
        bridge._keep(name, piece)
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


class Group:
    """Ray Train's, as far as the bridge asks it."""

    def __init__(self, size: int) -> None:
        self.size, self.called = size, []  # type: tuple[int, list[Any]]

    def __len__(self) -> int:
        return self.size

    def execute_single(self, rank: int, function: Any, *words: Any) -> None:
        self.execute_single_async(rank, function, *words)

    def execute_single_async(self, rank: int, function: Any, *words: Any) -> None:
        assert function.__name__, "Ray names the task by it"
        self.called.append(words)
        function(*words)


class Leaving:
    preempted_ranks = (1,)


class Status:
    def get_preemption_info(self) -> Leaving:
        return Leaving()


@pytest.mark.parametrize(("sizes", "paused"), [((1, 2), True), ((2,), False), ((2, 4), False)])
def test_a_drained_node_pauses_a_group_that_can_go_on_without_it_and_ends_another(
    config: Config, node: Path, sizes: tuple[int, ...], paused: bool
) -> None:
    ends = ends_of(config)
    bridge, group = Bridge(ends, sizes), Group(2)
    bridge.after_worker_group_start(group)
    for _ in range(2):  # asked for once, however often it is seen
        bridge._leave(Status().get_preemption_info())
    assert [call[0] for call in group.called] == [ends.begin, *([ends.pause] if paused else [])]
    assert (stopping.read_reason(config.run_dir) == "") == paused
