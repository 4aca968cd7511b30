"""The rule for short tests counts own threads, children and a fork server's children; not sleep, and not `long`."""

import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests import cpu_limit
from tests.warm import CONTEXT

SECONDS = 0.3


def compute() -> None:
    end = time.process_time() + SECONDS
    while time.process_time() < end:
        pass


def in_a_child() -> None:
    code = f"import time\nend = time.process_time() + {SECONDS}\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", code], check=True)


def in_a_child_of_the_fork_server() -> None:
    process = CONTEXT.Process(target=compute)
    process.start()
    process.join()


def call(work: Callable[[], None], mark: str | None = None) -> None:
    """Runs a test with that work under the rule."""
    item: Any = SimpleNamespace(get_closest_marker=lambda name: mark if name == mark else None, user_properties=[])
    wrapper = cpu_limit.pytest_runtest_call(item)
    next(wrapper)
    work()
    with pytest.raises(StopIteration):
        next(wrapper)


@pytest.mark.parametrize("work", [compute, in_a_child, in_a_child_of_the_fork_server])
def test_processor_time_beyond_the_limit_fails(work: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:  # not to the end: the rule holds for this test too
        for limit in ("LIMIT", "FAILS"):
            patch.setattr(cpu_limit, limit, SECONDS / 2)
        with pytest.raises(pytest.fail.Exception, match=r"took 0\.\d CPU seconds of 0\.15"):
            call(work)
        call(work, "long")
        call(lambda: time.sleep(SECONDS))
