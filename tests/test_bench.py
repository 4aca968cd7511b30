"""The benchmarks are listed without being imported, and end with one line that scripts can read."""

import pytest

from bench.__main__ import benchmarks, main
from bench.result import Result


def test_all_benchmarks_are_listed_with_what_they_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    for name in ("decode", "memory", "read", "shard", "train"):
        assert name in benchmarks()
        assert benchmarks()[name] in listed


def test_an_unknown_benchmark_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert "Choices: decode, memory, read, shard, train" in capsys.readouterr().err


def test_the_last_line_holds_both_figures_and_their_ratio() -> None:
    assert Result("read", 110.0, 0.5, "Mtok/s").line() == "read ours=110 peer=0.5 ratio=220"
