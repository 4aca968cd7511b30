"""A pytest plugin: a test without the mark `long` that takes more than 3 CPU seconds fails, and says how many.

The phase `call` alone is charged: the threads of this process, and the processes that it or its children reaped then.
What others use too is not the test's: fixtures, which are set up before, and modules that are imported for the first
time. Processor time is counted, not wall time, so a busy machine changes little; on a slow processor the limit grows by
what a short loop takes there, measured beside the failing test.
"""

import contextlib
import importlib.machinery
import os
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

import pytest

LIMIT = 3.0  # CPU seconds, on a processor that counts to a million in REFERENCE
REFERENCE = 0.020
IMPORTS = threading.local()  # depth: of the import at work in this thread
imported = 0.0  # CPU seconds of first imports in this process


def cpu_seconds() -> float:
    """The CPU seconds of this process and its reaped children, less those of imports."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + reaped_by_children() - imported


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
    return max(1.0, sorted(took)[1] / REFERENCE)


def count_imports() -> None:
    """Let every first import of a Python module add its CPU seconds to `imported`."""
    plain = importlib.machinery.SourceFileLoader.exec_module

    def exec_module(loader: importlib.machinery.SourceFileLoader, module: ModuleType) -> None:
        global imported
        if getattr(IMPORTS, "depth", 0):
            return plain(loader, module)
        IMPORTS.depth = 1
        begun = time.thread_time()
        try:
            return plain(loader, module)
        finally:
            IMPORTS.depth = 0
            imported += time.thread_time() - begun

    importlib.machinery.SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign]


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
            pytest.fail(
                f"took {took:.1f} CPU seconds of {allowed:.1f}; make it smaller, or mark it long", pytrace=False
            )
