"""Several processes on one port, with a server that answers every connection with its process's number."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dragoman.model.errors import UserError
from dragoman.services.endpoint.serve import check
from dragoman.services.settings import ServeConfig

PATIENCE = 60  # seconds; a busy machine takes its time to start a process
REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = """
import contextlib, os, sys
from dragoman.services.endpoint.processes import Processes
from dragoman.services.http.listening import bind

def serving(listening, ready, metrics):
    if len(sys.argv) > 1 and metrics.place == int(sys.argv[1]):
        raise OSError("no model")
    ready()
    while True:
        connection, _ = listening.accept()
        with contextlib.suppress(OSError), connection:
            connection.sendall(str(os.getpid()).encode())

if __name__ == "__main__":
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    sys.exit(Processes(serving, listening, 2, 1.0, lambda: print(port, flush=True)).run())
"""


@contextlib.contextmanager
def started(folder: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, str(program), *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(port: int) -> int:
    """Returns the id of the process that answers; a connection that ends with a killed process is made again."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with (
            contextlib.suppress(ConnectionResetError),
            socket.create_connection(("127.0.0.1", port), PATIENCE) as connection,
        ):
            if answer := connection.recv(20):
                return int(answer)
    raise AssertionError("no process answers")


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_dead_process_is_replaced_and_sigterm_ends_all(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        first = ask(port)
        os.kill(first, signal.SIGKILL)
        seen: set[int] = set()
        until(lambda: not seen.add(ask(port)) and len(seen - {first}) > 1)
        process.terminate()
        assert process.wait(PATIENCE) == 0
        until(lambda: not any(map(psutil.pid_exists, seen)))
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_processes_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        one = ask(port)
        process.kill()
        until(lambda: not psutil.pid_exists(one))


def test_a_first_process_that_cannot_start_ends_all_with_its_message_and_code(tmp_path: Path) -> None:
    with started(tmp_path, "0") as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert said.count("no model") == 1


def test_no_process_at_all_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"serve\.processes"):
        check(ServeConfig(bundle="x", processes=0))
