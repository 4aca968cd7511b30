"""A pytest plugin: a test without the mark `long` that takes more than 3 CPU seconds is named at the end, and one that
takes more than ten times as many fails: the same test takes three times its CPU time where its processor is shared.

The phase `call` alone is charged: the threads of this process, and the processes that it or its children reaped then.
What others use too is not the test's: fixtures, which are set up before, and what is imported or compiled for the first
time. Processor time is counted, not wall time, so a busy machine changes little; on a slow processor the limit grows by
what a short loop takes there, measured beside the failing test.
"""

import contextlib
import importlib.machinery
import os
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

LIMIT = 3.0  # CPU seconds, on a processor that counts to a million in REFERENCE
FAILS = 10.0  # times the limit
REFERENCE = 0.020
WITHIN = threading.local()  # block: True while what is computed in this thread is paid once
paid_once = 0.0  # CPU seconds of this process


def cpu_seconds() -> float:
    """The CPU seconds of this process and its reaped children, less those of imports."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + reaped_by_children() - paid_once


def reaped_by_children() -> float:
    """The CPU seconds of processes whose parents are living children of this one, such as a fork server."""
    ticks = 0
    for children in Path("/proc/self/task").glob("*/children"):  # Linux
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[13]) + int(fields[14])  # cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


def slowness() -> float:
    """How many times slower than the reference this processor computes now, and at least 1."""
    took = []
    for _ in range(3):
        begun = time.thread_time()
        for _ in range(1_000_000):
            pass
        took.append(time.thread_time() - begun)
    cores = len(os.sched_getaffinity(0))
    crowded = 2.0 if os.getloadavg()[0] > 2 * cores else 1.0  # others empty the caches, and no short loop shows it
    return max(1.0, sorted(took)[1] / REFERENCE) * crowded


@contextlib.contextmanager
def once() -> Iterator[None]:
    """What this thread computes in the block is the process's, not the test's; blocks may lie within each other."""
    global paid_once
    if getattr(WITHIN, "block", False):
        yield
        return
    WITHIN.block, begun = True, time.thread_time()
    try:
        yield
    finally:
        WITHIN.block = False
        paid_once += time.thread_time() - begun


def count_imports() -> None:
    """Let first imports of Python modules be paid once, and what Numba compiles as soon as it is imported."""
    plain = importlib.machinery.SourceFileLoader.exec_module

    def exec_module(loader: importlib.machinery.SourceFileLoader, module: ModuleType) -> None:
        with once():
            plain(loader, module)
            if module.__name__ == "numba.core.event":
                count_compilations(module)

    importlib.machinery.SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign]


def count_compilations(event: Any) -> None:
    """Let what Numba compiles be paid once: another process finds it in the cache."""

    class Compilations(event.Listener):  # type: ignore[misc]  # a class of the module that is being imported
        def __init__(self) -> None:
            self.blocks: list[contextlib.AbstractContextManager[None]] = []

        def on_start(self, _: object) -> None:
            self.blocks.append(once())
            self.blocks[-1].__enter__()

        def on_end(self, _: object) -> None:
            self.blocks.pop().__exit__(None, None, None)

    event.register("numba:compile", Compilations())


def pytest_configure() -> None:
    count_imports()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    begun = cpu_seconds()
    yield
    took = cpu_seconds() - begun
    if took > LIMIT and item.get_closest_marker("long") is None:
        allowed = LIMIT * slowness()
        if took > allowed:
            item.user_properties.append(("cpu_seconds", f"{took:.1f}"))
        if took > FAILS * allowed:
            pytest.fail(
                f"took {took:.1f} CPU seconds of {allowed:.1f}; make it smaller, or mark it long", pytrace=False
            )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    found = [
        f"{dict(report.user_properties)['cpu_seconds']:>6} {report.nodeid}"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call" and report.user_properties
        if "cpu_seconds" in dict(report.user_properties)
    ]
    if found:
        terminalreporter.section(f"tests of more than {LIMIT:g} CPU seconds: make them smaller, or mark them long")
        terminalreporter.write_line("\n".join(sorted(found, reverse=True)))
