"""Processes of a pool end when nobody asks them any more, and come back with the next question."""

import sys
import textwrap
import time
from pathlib import Path

import pytest

from dragoman.services.subprocesses.pool import Pool


def test_an_idle_process_is_ended_and_the_next_question_starts_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "echo.py").write_text(
        textwrap.dedent("""
        import os, sys
        for line in sys.stdin:
            print('{"pid": %d}' % os.getpid(), flush=True)
        """)
    )
    pool = Pool("unused", 2, 5.0, idle=0.3)
    pool.command = [sys.executable, str(tmp_path / "echo.py")]
    try:
        first = pool.ask({})
        assert pool.ask({}) == first
        deadline = time.monotonic() + 20
        while pool._all and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not pool._all and not pool._free
        assert pool.ask({}) != first
    finally:
        pool.close()
