"""A few child processes that answer questions: a line of JSON in, a line of JSON out.

What strangers send is read there: a child that computes too long is killed, and its memory is limited (`worker.py`).
So one input costs its sender an answer, and nobody else anything. A busy machine is nobody's fault: a question that is
late goes on, and who asks it again gets its answer. Children start on demand, and again after they have gone. Owners
that hold none come first, and one owner never holds the last one.
"""

import contextlib
import itertools
import json
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import psutil

from dragoman.model.errors import ServiceError

LOADING = 300.0  # CPU seconds for a process to get ready: the planner's loads torch
PATIENCE = 120.0  # wall-clock seconds that an asker waits for a process at work
STUCK = 300.0  # seconds without any computing, after which a process is ended: it is stopped, or waits for ever
IDLE = 300.0  # seconds without a question, after which a process is ended: it holds the memory of what it has loaded
LATE = 8  # kept answers for which nobody waited
LOOK = 0.2  # seconds between two checks of a question in progress


class PoolClosedError(ServiceError):
    """The service stops."""


class BusyError(ServiceError):
    """The machine is too busy to answer in time; the process works on, and asking again gets its answer."""


class TooLongError(Exception):
    """A question exceeded its time of a processor, and its process was ended; the message names the limit."""


class Pool:
    """At most `most` processes of a module with a `main` that calls `worker.serve`."""

    def __init__(self, module: str, most: int, computing: float) -> None:
        """`computing`: CPU seconds per question."""
        self.command = [sys.executable, "-m", module]
        self.most, self.computing, self.patience, self.idle = most, computing, PATIENCE, IDLE
        self._changed = threading.Condition()  # guards the following
        self._all: set[Process] = set()
        self._free: list[Process] = []
        self._held: Counter[str] = Counter()  # owner -> processes
        self._waiting: dict[int, tuple[str, Future[None]]] = {}  # number of a turn -> owner and turn
        self._turns = itertools.count()
        self._asked: dict[tuple[str, str], Future[str]] = {}  # owner and question -> its answer
        self._closed = False
        self._resting = False  # a thread waits to end the free processes

    def prepare(self) -> None:
        """Starts a process, so that the first question need not wait for loading."""
        with self._changed:
            if not self._free:
                self._release(self._live())

    def ask(self, question: dict[str, Any], owner: str = "") -> str:
        """Returns the line of the answer; empty if the process has gone.

        Raises:
            TooLongError: it computes too long.
            BusyError: the machine is too busy; ask again.
            PoolClosedError: the service stops.
        """
        key = owner, json.dumps(question)
        with self._changed:
            answer = self._asked.get(key)
            if answer is None:
                for late in [other for other, future in self._asked.items() if future.done()][:-LATE]:
                    del self._asked[late]
                answer = self._asked[key] = Future()
                threading.Thread(target=self._answer, args=(*key, answer), name="question", daemon=True).start()
        while True:
            try:
                answer.exception(self.patience)
                break
            except TimeoutError:
                if answer.running():  # otherwise it waits for its turn
                    raise BusyError(f"no answer in {self.patience:g} s: the machine is busy") from None
        with self._changed:
            self._asked.pop(key, None)
        return answer.result()

    def _answer(self, owner: str, question: str, answer: "Future[str]") -> None:
        try:
            self.turn(owner).result()
            answer.set_running_or_notify_cancel()
            with self.lent(owner) as process:
                line = process.ask(question, self.computing)
            answer.set_result(line)
        except Exception as problem:  # for whoever asked
            answer.set_exception(problem)

    def turn(self, owner: str) -> "Future[None]":
        """Returns what is done once it is the owner's turn, who may cancel it until then; `lent` ends it.

        Its result raises PoolClosedError: the service stops.
        """
        turn = Future[None]()
        with self._changed:
            self._waiting[next(self._turns)] = owner, turn
            self._grant()
        return turn

    @contextlib.contextmanager
    def lent(self, owner: str) -> Iterator["Process"]:
        """Yields a process in the owner's turn; one that fails in the middle of the block is ended.

        Raises PoolClosedError: the service stops.
        """
        process: Process | None = None
        try:
            process = self._live()
            yield process
            if self._closed:
                raise PoolClosedError("the service stops")
        except BaseException as problem:
            if process is not None:
                process.end()
            if self._closed:
                raise PoolClosedError("the service stops") from problem
            raise
        finally:
            self.give_back(owner, process)

    def give_back(self, owner: str, process: "Process | None" = None) -> None:
        """Ends a turn."""
        with self._changed:
            self._held[owner] -= 1
            if process is not None and process.alive() and not self._closed:
                self._release(process)
            elif process is not None:
                process.end()
                self._all.discard(process)
            self._grant()

    def close(self) -> None:
        """Ends the processes, whatever they are at."""
        with self._changed:
            self._closed = True
            for process in self._all:
                process.kill()
            while self._free:
                self._free.pop().end()
            self._grant()

    def _live(self) -> "Process":
        """Returns a waiting process, or a new one; drops processes that have gone."""
        with self._changed:
            while self._free:
                process = self._free.pop()
                if process.alive():
                    return process
                process.end()
                self._all.discard(process)
        process = Process(self.command)  # takes a while, for which nobody waits
        with self._changed:
            self._all.add(process)
            if self._closed:
                process.kill()
        return process

    def _grant(self) -> None:
        """Tells those whose turn it is; all, if the pool is closed."""
        while (number := min(self._waiting, default=None) if self._closed else self._next()) is not None:
            owner, turn = self._waiting.pop(number)
            if turn.set_running_or_notify_cancel():
                if self._closed:
                    turn.set_exception(PoolClosedError("the service stops"))
                else:
                    self._held[owner] += 1
                    turn.set_result(None)
        self._changed.notify_all()

    def _release(self, process: "Process") -> None:
        """Keeps a process for the next question, for a while."""
        process.free_since = time.monotonic()
        self._free.append(process)
        if not self._resting:
            self._resting = True
            threading.Thread(target=self._end_idle, name="idle", daemon=True).start()

    def _end_idle(self) -> None:
        """Ends the processes that nobody has asked for a while."""
        with self._changed:
            while self._free and not self._closed:
                left = self._free[0].free_since + self.idle - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                else:
                    process = self._free.pop(0)  # the last one is asked first, so the first idles longest
                    process.end()
                    self._all.discard(process)
            self._resting = False

    def _next(self) -> int | None:
        """Returns the turn that gets a process now; None if all must wait."""
        if self._held.total() >= self.most:
            return None
        held = ((self._held[owner], number) for number, (owner, _) in self._waiting.items())
        return min((pair for pair in held if pair[0] < max(1, self.most - 1)), default=(0, None))[1]


class Process:
    """One process of a pool, and its limits."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._ready = False
        self.free_since = 0.0  # monotonic

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, question: str, computing: float) -> str:
        """Returns its answer; empty if it has gone. Raises TooLongError: it computed too long and is ended."""
        if not self.load():
            return ""
        try:
            self._questions.write(question + "\n")
            self._questions.flush()
        except (BrokenPipeError, ValueError):  # it has gone
            return ""
        if limit := self._wait(computing):
            self.end()
            raise TooLongError(limit)
        line = self._answers.readline()
        if not line:  # it is going, even if it has not gone yet
            self.end()
        return line

    def load(self) -> bool:
        """Waits until it is ready for questions; returns False if it has gone, or takes too long."""
        self._ready = self._ready or (not self._wait(LOADING) and bool(self._answers.readline()))
        return self._ready

    def _wait(self, computing: float) -> str:
        """Waits for a line, or the process's end; returns the exceeded limit, if any."""
        before = last = self._computed()
        moved = time.monotonic()
        while not select.select([self._answers], [], [], LOOK)[0]:
            now = self._computed()
            if now - before > computing:
                return f"{computing:g} s of a processor"
            if now != last:
                last, moved = now, time.monotonic()
            elif time.monotonic() - moved > STUCK:
                self.kill()
        return ""

    def _computed(self) -> float:
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._questions, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
