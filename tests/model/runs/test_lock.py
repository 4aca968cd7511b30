"""One training of a run at a time."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.runs import lock


def test_a_second_holder_is_refused_by_the_first_ones_name(tmp_path: Path) -> None:
    who = rf"name=one: .* by process {os.getpid()} on {re.escape(socket.gethostname())} since \d{{4}}-"
    with lock.hold_run(tmp_path, "one"), pytest.raises(UserError, match=who), lock.hold_run(tmp_path, "one"):
        pass
    with lock.hold_run(tmp_path, "one"):
        pass


def test_a_killed_holder_blocks_nobody(tmp_path: Path) -> None:
    code = "import sys, time, pathlib; from dragoman.model.runs import lock\n"
    code += "with lock.hold_run(pathlib.Path(sys.argv[1]), 'one'): print('held', flush=True); time.sleep(600)"
    first = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    with first.stdout:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"process {first.pid} "), lock.hold_run(tmp_path, "one"):
            pass
        first.send_signal(signal.SIGKILL)
        first.wait()
    with lock.hold_run(tmp_path, "one"):
        pass


def test_a_folder_that_knows_no_locks_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with lock.hold_run(tmp_path, "one"):
        assert "cannot be locked (Operation not supported)" in caplog.text
