"""Runs the planners' processes, which start on demand and restart after they have gone.

A plan takes as long as composing a configuration, so it is cached for the same words while the files behind it are
unchanged. Each plan has a limit of time and memory in its own process; one that exceeds it is refused, and others are
made meanwhile.
"""

import contextlib
import itertools
import json
import select
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.planning.stamps import Stamp, stamp_of

COMMAND = [sys.executable, "-m", "dragoman.services.jobs.planning.worker"]
LOADING = 300.0  # seconds for a process to get ready; it loads torch
PATIENCE = 120.0  # wall-clock seconds per plan
COMPUTING = 15.0  # CPU seconds per plan
PROCESSES = 3  # at most; one owner never holds the last one
LOOK = 0.2  # seconds between two checks of a plan in progress
KEPT = 500  # cached plans


class RefusedPlanError(UserError):
    """The command itself refuses a submission that names these places; see `refusals.check_values`."""

    def __init__(self, message: str, places: list[dict[str, str]]) -> None:
        super().__init__(message)
        self.places = places


class PlannerClosedError(ServiceError):
    """The service stops: the next one makes the missing plans."""


class Planner:
    """The plans of all owners. Callers get a process in turn; owners that hold none come first."""

    def __init__(self, roots: Sequence[Path], secrets: Sequence[Path] = ()) -> None:
        """`roots` are the home and other folders that jobs may read; `secrets` are the service's files in them."""
        self.roots, self.secrets = [str(root) for root in roots], [str(secret) for secret in secrets]
        self.computing = COMPUTING
        self._lock = threading.Lock()  # guards the caches
        self._changed = threading.Condition()  # guards the following
        self._all: set[_Process] = set()
        self._free: list[_Process] = []
        self._held: Counter[str] = Counter()  # owner -> processes
        self._waiting: dict[int, str] = {}  # turn -> owner
        self._turns = itertools.count()
        self._closed = False
        self._fields: dict[tuple[Any, ...], dict[str, Any]] = {}  # depends only on the code
        self._plans: OrderedDict[str, tuple[str, dict[str, Stamp]]] = OrderedDict()  # question -> answer, files read

    def plan(
        self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False, owner: str = ""
    ) -> dict[str, Any]:
        """Returns the plan of a submission by `owner`.

        Raises:
            UserError: it is refused, or planning it takes too much time or memory.
            ServiceError: the planner failed.
        """
        where = {"roots": self.roots, "secrets": self.secrets}
        asked = json.dumps({"verb": verb, "words": list(words), **where, "gpus": gpus, "early": early})
        with self._lock:
            line = self._recall(asked)
        line = line or self._ask(asked, owner)
        answer = _read(line, "plan")
        if answer["reads"]:
            with self._lock:
                self._keep(asked, line, answer["reads"])
        plan: dict[str, Any] = answer["plan"]
        return plan

    def fields(self, verb: str, chosen: Mapping[str, str]) -> dict[str, Any]:
        """Returns the settings of the command, with the choices made of groups: see fields.py.

        Raises:
            UserError: an unknown command or choice.
            ServiceError: the planner failed.
        """
        key = (verb, *sorted(chosen.items()))
        if key not in self._fields:
            line = self._ask(json.dumps({"fields": verb, "chosen": dict(chosen)}))
            self._fields[key] = _read(line, "fields")["fields"]
        return self._fields[key]

    def prepare(self) -> None:
        """Starts a process, so that the first question need not wait for loading."""
        with self._changed:
            self._free.append(self._start())

    def _live(self) -> "_Process":
        """Returns a waiting process, or a new one; drops processes that have gone."""
        while self._free:
            process = self._free.pop()
            if process.alive():
                return process
            process.end()
            self._all.discard(process)
        return self._start()

    def _start(self) -> "_Process":
        process = _Process()
        self._all.add(process)
        return process

    def _recall(self, question: str) -> str:
        """Returns the cached answer; empty if there is none, or a file has changed."""
        line, stamps = self._plans.get(question, ("", {}))
        if any(stamp_of(path) != stamp for path, stamp in stamps.items()):
            del self._plans[question]
            return ""
        return line

    def _keep(self, question: str, line: str, stamps: dict[str, Stamp]) -> None:
        self._plans[question] = line, stamps
        self._plans.move_to_end(question)
        while len(self._plans) > KEPT:
            self._plans.popitem(last=False)

    def close(self) -> None:
        """Ends the processes and their plans."""
        with self._changed:
            self._closed = True
            for process in self._all:
                process.kill()
            while self._free:
                self._free.pop().end()
            self._changed.notify_all()

    def _ask(self, question: str, owner: str = "") -> str:
        with self._process(owner) as process:
            line = process.ask(question, self.computing)
        if self._closed:
            raise PlannerClosedError("the service stops")
        return line

    @contextlib.contextmanager
    def _process(self, owner: str) -> Iterator["_Process"]:
        """Yields a process for one question."""
        with self._changed:
            turn = next(self._turns)
            self._waiting[turn] = owner
            self._changed.wait_for(lambda: self._closed or self._next() == turn)
            del self._waiting[turn]
            if self._closed:
                raise PlannerClosedError("the service stops")
            self._held[owner] += 1
            process = self._live()
            self._changed.notify_all()
        try:
            yield process
        finally:
            with self._changed:
                self._held[owner] -= 1
                if process.alive() and not self._closed:
                    self._free.append(process)
                else:
                    process.end()
                    self._all.discard(process)
                self._changed.notify_all()

    def _next(self) -> int | None:
        """Returns the turn that gets a process now; None if all must wait."""
        if self._held.total() >= PROCESSES:
            return None
        able = [turn for turn, owner in self._waiting.items() if self._held[owner] < PROCESSES - 1]
        return min(able, key=lambda turn: (self._held[self._waiting[turn]], turn), default=None)


class _Process:
    """One process that makes plans, and its limits."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._ready = False

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, question: str, computing: float) -> str:
        """Returns its answer; empty if it has gone. A process that takes too long is ended and the plan refused."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if not self._ready:
            if self._wait(LOADING, LOADING):
                return ""
            self._ready = bool(self._process.stdout.readline())
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has gone
            return ""
        if late := self._wait(computing, PATIENCE):
            self.end()
            return json.dumps({"refused": f"planning it takes more than {late}: its settings are too large"})
        return self._process.stdout.readline()

    def _wait(self, computing: float, patience: float) -> str:
        """Waits for a line; returns the exceeded limit, if any."""
        assert self._process.stdout is not None
        began, before = time.monotonic(), self._computed()
        while not select.select([self._process.stdout], [], [], LOOK)[0]:
            if self._computed() - before > computing:
                return f"{computing:g} s of a processor"
            if time.monotonic() - began > patience:
                return f"{patience:g} s"
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
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()


def _read(line: str, name: str) -> dict[str, Any]:
    """Returns the answer in a line.

    Raises:
        UserError: the submission is refused.
        ServiceError: the planner failed.
    """
    answer: dict[str, Any] = json.loads(line) if line else {"failed": "it has gone or took too long"}
    if "refused" in answer:
        raise RefusedPlanError(answer["refused"], answer.get("places", []))
    if name not in answer:
        raise ServiceError(f"the planner failed: {answer.get('failed')}")
    return answer
