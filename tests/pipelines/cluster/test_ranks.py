"""Ranks: how many threads a process takes."""

from collections.abc import Iterator

import pytest
import torch

from dragoman.model.device import use_cores
from dragoman.pipelines.cluster.ranks import alone


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The threads of this process are put back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_process_alone_takes_the_threads_that_the_user_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    alone("cpu")
    assert torch.get_num_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "8,2")  # a list for nested regions says nothing about a share
    alone("cpu")
    assert torch.get_num_threads() == 8
    monkeypatch.delenv("OMP_NUM_THREADS")
    alone("cpu")
    assert torch.get_num_threads() == 8


@pytest.mark.parametrize(("share", "most", "threads"), [(1, 0, 8), (2, 0, 4), (2, 3, 3), (3, 100, 2), (100, 0, 1)])
def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch, share: int, most: int, threads: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))
    assert use_cores(share, most) == torch.get_num_threads() == threads
