"""Processes that have everything imported when they begin: forks of one that does nothing else.

A Python that imports torch and what needs it takes seconds of a core, and the tests start dozens. What is started here
is a process with a session, an environment and an end of its own; only the imports were made before. Ray is not among
them: each process that uses it must load it anew.
"""

import atexit
import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "dragoman.services.cli",
        "dragoman.pipelines.train",
        "dragoman.pipelines.shard",
        "dragoman.pipelines.evaluate",
        "dragoman.services.endpoint.app",
        "dragoman.services.endpoint.serve",
        "mlflow",
        "pandas",
        "pytest",
        "torch._dynamo",  # a process's first optimizer loads it: 1.3 CPU seconds
        __name__,
    ]
)


def start_ranks(function: Callable[..., None], arguments: tuple[Any, ...], ranks: int = 2) -> None:
    """`function(rank, *arguments)` in as many processes, to their end; what one raises is raised here."""
    from torch.multiprocessing.spawn import start_processes

    start_processes(function, arguments, nprocs=ranks, start_method="forkserver")  # type: ignore[no-untyped-call]


class Command:
    """`dragoman WORDS` in the repository's folder, with what the tests use of `subprocess.Popen`."""

    def __init__(self, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        receiver, sender = CONTEXT.Pipe(duplex=False)
        # a daemon: where a test fails and forgets it, it ends with us
        self._process = CONTEXT.Process(target=_become, args=(words, dict(environment), sender), daemon=True)
        self._process.start()
        sender.close()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.stdout = os.fdopen(os.dup(receiver.fileno()), encoding="utf-8", errors="replace")
        receiver.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("dragoman", timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """All that it prints, on either channel, until it and all that it has started are done with them."""
        end = None if timeout is None else time.monotonic() + timeout
        pieces = []
        with selectors.DefaultSelector() as selector:
            selector.register(self.stdout, selectors.EVENT_READ)
            while True:
                left = None if end is None else end - time.monotonic()
                if not selector.select(left) and left is not None:
                    raise subprocess.TimeoutExpired("dragoman", timeout or 0.0)
                piece = os.read(self.stdout.fileno(), 2**16)
                if not piece:
                    break
                pieces.append(piece)
        self.wait(timeout)
        self.stdout.close()
        return b"".join(pieces).decode("utf-8", errors="replace"), None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become(words: tuple[str, ...], environment: dict[str, str], output: Connection) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(REPOSITORY)
    for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(output.fileno(), descriptor)
    output.close()
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # as a new Python would find it
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    from dragoman.services import cli

    sys.argv = [str(cli.__file__), *words]
    code = 1
    try:
        code = cli.main(words)
    finally:
        atexit._run_exitfuncs()  # a process of multiprocessing ends without them
    sys.exit(code)
