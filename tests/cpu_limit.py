"""A pytest plugin: a test without the mark `long` that takes more than 3 CPU seconds is named at the end, and one that
takes more than a minute of them fails.

The phase `call` alone is charged: the threads of this process, and the processes that it or its children reaped then;
fixtures are set up before. Processor time is counted, not wall time, so a busy machine changes little; the two limits
lie far apart because a slow processor, a first import and a first compilation by Numba change more.
"""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

import pytest

LIMIT, FAILS = 3.0, 60.0  # CPU seconds


def cpu_seconds() -> float:
    """The CPU seconds of this process and its reaped children."""
    return sum(os.times()[:4]) + reaped_by_children()


def reaped_by_children() -> float:
    """The CPU seconds of processes whose parents are living children of the main thread, such as a fork server."""
    ticks = 0
    with contextlib.suppress(OSError):  # Linux alone has such files
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[13]) + int(fields[14])  # cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    begun = cpu_seconds()
    yield
    took = cpu_seconds() - begun
    if took > LIMIT and item.get_closest_marker("long") is None:
        item.user_properties.append(("cpu_seconds", f"{took:.1f}"))
        if took > FAILS:
            pytest.fail(f"took {took:.1f} CPU seconds of {FAILS:g}; make it smaller, or mark it long", pytrace=False)


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
