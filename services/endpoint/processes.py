"""Several endpoint processes on one port: a supervisor that starts them, replaces dead ones and stops all.

The processes accept from one listening socket, so no connection waits at a process that has died. Each has its own
copy of the models; state is in the database and in folders, which processes share anyway.
"""

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import NoReturn

from dragoman.conf.endings import FAILED, OK, run_process
from dragoman.conf.interrupts import handled_by
from dragoman.services.telemetry.summed_metrics import SummedMetrics

PAUSE = 1.0  # seconds before a process that has died is replaced
MARGIN = 10.0  # seconds to end beyond the time for requests in progress
logger = logging.getLogger(__name__)
Serving = Callable[[socket.socket, Callable[[], None], SummedMetrics], int]  # (listening, ready, metrics): exit code


@dataclass(eq=False)
class Child:
    """A process, and the pipe at which it says that it answers; the pipe ends with it."""

    process: SpawnProcess
    said: Connection
    answers: bool = False


@dataclass
class Processes:
    """`number` processes of `serving` on a socket; `serving` is pickled. `grace`: seconds for requests at the end."""

    serving: Serving
    listening: socket.socket
    number: int
    grace: float
    ready: Callable[[], None]  # called once all answer
    _folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="dragoman-endpoint-")))
    _children: dict[int, Child] = field(default_factory=dict)

    def run(self) -> int:
        """Runs until SIGTERM; returns the exit code, that of the first process if it cannot start."""
        stopped, stop = multiprocessing.Pipe(duplex=False)
        try:
            with handled_by(lambda *_: stop.send(None), signal.SIGTERM):
                return self._run(stopped)
        finally:
            self._end()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, stopped: Connection) -> int:
        for place in range(self.number):  # the first alone: what it cannot do is said once, and loaded for all
            if place < 2:
                code = self._wait_for_first(stopped) if place else None
                if code is not None:
                    return code
            self._start(place)
        waiting = True
        while True:
            if waiting and len(self._children) == self.number and all(one.answers for one in self._children.values()):
                waiting = False
                self.ready()
            by_pipe = {one.said: place for place, one in self._children.items()}
            heard = wait([stopped, *by_pipe])
            if stopped in heard:
                return OK
            for pipe, place in by_pipe.items():
                if pipe in heard:
                    self._hear(place)
            for place in set(range(self.number)) - set(self._children):
                if stopped.poll(PAUSE):
                    return OK
                self._start(place)

    def _wait_for_first(self, stopped: Connection) -> int | None:
        """Waits until the first process answers; returns an exit code if it does not."""
        first = self._children[0]
        if stopped in wait([stopped, first.said]):
            return OK
        self._hear(0)
        return None if first.answers else first.process.exitcode or FAILED

    def _start(self, place: int) -> None:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        arguments = (self.serving, self.listening, theirs, SummedMetrics(self._folder, place))
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=arguments, name=f"endpoint-{place}", daemon=False
        )
        process.start()
        theirs.close()
        self._children[place] = Child(process, ours)

    def _hear(self, place: int) -> None:
        """Notes that a process answers, or forgets one that has ended."""
        child = self._children[place]
        try:
            child.said.recv()
            child.answers = True
        except EOFError:
            child.process.join()
            child.said.close()
            logger.warning("process %d of %d ended (%s)", place + 1, self.number, child.process.exitcode)
            SummedMetrics(self._folder, place).retire()
            del self._children[place]

    def _end(self) -> None:
        """Ends all processes; kills those that do not end in time."""
        for child in self._children.values():
            child.process.terminate()
        end = time.monotonic() + self.grace + MARGIN
        for child in self._children.values():
            child.process.join(max(0.0, end - time.monotonic()))
            if child.process.is_alive():
                child.process.kill()
                child.process.join()


def _serve(serving: Serving, listening: socket.socket, said: Connection, metrics: SummedMetrics) -> NoReturn:
    """Is the main function of a process."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    run_process(lambda: serving(listening, lambda: said.send(None), metrics))


def _end_with_parent() -> None:
    """Ends this process in order once the supervisor has died."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # not raise_signal: the main thread must wake up
