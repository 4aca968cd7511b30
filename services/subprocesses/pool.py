"""A few child processes that answer questions: a line of JSON in, a line of JSON out.

What strangers send is read there: the system ends a child that computes too long, and its memory is limited
(`worker.py`). So one input costs its sender an answer, and nobody else anything. Children start on demand, and again
after they have gone; those that nobody asks for a while are ended, with the memory of what they have loaded.
"""

import contextlib
import json
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from dragoman.model.errors import ServiceError

STUCK = 600.0  # seconds without a line, after which a child is ended: it is stopped, or the machine is
IDLE = 300.0  # seconds without a question, after which a free child is ended
Reply = Callable[[dict[str, Any]], dict[str, Any]]  # to what a child asks back in the middle of a question


class GoneError(ServiceError):
    """The child has ended in the middle of a question: it was killed, or has crashed; or the service stops."""


class TooLongError(Exception):
    """A question exceeded its time of a processor; the message names the limit."""


class Pool:
    """At most `most` children of a module with a `main` that calls `worker.serve`; `computing`: CPU seconds of a
    question."""

    def __init__(self, module: str, most: int, computing: float, idle: float = IDLE) -> None:
        self.command = [sys.executable, "-m", module]
        self.computing, self.idle = computing, idle
        self._room = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()  # guards the following
        self._all: set[Child] = set()
        self._free: list[Child] = []
        self._closed = False

    def prepare(self) -> None:
        """Starts a child, so that the first question need not wait for loading."""
        with self._lock:
            if not self._free:
                self._free.append(self._start())

    def ask(self, question: dict[str, Any], reply: Reply | None = None, child: "list[Child] | None" = None) -> Any:
        """Returns the answer; `reply` answers what the child asks back, and `child` gets the child, for `end`.

        Raises TooLongError: it computes too long; GoneError: the child has gone; and as `reply`.
        """
        with self._room:
            with self._lock:
                asked = self._free.pop() if self._free else self._start()
            if child is not None:
                child.append(asked)
            try:
                answer = asked.ask(question, self.computing, reply)
            except BaseException:
                with self._lock:
                    self._drop(asked)
                raise
            with self._lock:
                if "spent" not in answer and not self._closed:
                    self._free.append(asked)
                    asked.rest(self.idle, self._end_idle)
                else:
                    self._drop(asked)
            return answer

    def close(self) -> None:
        """Ends the children, whatever they are at."""
        with self._lock:
            self._closed = True
            while self._free:
                self._drop(self._free.pop())
            for child in self._all:  # whoever asks it drops it
                child.end()

    def _start(self) -> "Child":
        if self._closed:
            raise GoneError("the service stops")
        child = Child(self.command)
        self._all.add(child)
        return child

    def _end_idle(self, child: "Child") -> None:
        with self._lock:
            if child in self._free:
                self._free.remove(child)
                self._drop(child)

    def _drop(self, child: "Child") -> None:
        self._all.discard(child)
        child.end()
        child.close()


class Child:
    """One process of a pool."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None, "pipes"
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._rest: threading.Timer | None = None

    def ask(self, question: dict[str, Any], computing: float, reply: Reply | None) -> dict[str, Any]:
        """Returns its answer. Raises as `Pool.ask`."""
        if self._rest is not None:
            self._rest.cancel()
        answer = self._say(question, computing)
        while "asks" in answer:
            assert reply is not None, "asked back without a reply"
            answer = self._say(reply(answer["asks"]), computing)
        return answer

    def rest(self, seconds: float, end: "Callable[[Child], None]") -> None:
        """Calls `end` after some seconds, unless it is asked before."""
        self._rest = threading.Timer(seconds, end, [self])
        self._rest.daemon = True
        self._rest.start()

    def end(self) -> None:
        """Kills it; whoever waits for it raises GoneError."""
        if self._rest is not None:
            self._rest.cancel()
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Closes its pipes, which nobody reads any more."""
        for pipe in (self._questions, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()

    def _say(self, message: dict[str, Any], computing: float) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has gone, as reading tells
            self._questions.write(json.dumps(message) + "\n")
            self._questions.flush()
        return self._read(computing)

    def _read(self, computing: float) -> dict[str, Any]:
        """Returns the child's next line."""
        if not select.select([self._answers], [], [], STUCK)[0]:
            raise GoneError(f"no answer in {STUCK:g} s: the machine is busy, or the process is stopped")
        line = self._answers.readline()
        if not line:
            if self._process.wait() == -signal.SIGXCPU:
                raise TooLongError(f"{computing:g} s of a processor")
            raise GoneError("the process has ended: it was killed, or has crashed")
        answer: dict[str, Any] = json.loads(line)
        return answer
