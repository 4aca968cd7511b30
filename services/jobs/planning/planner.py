"""Asks the planners' processes, and remembers what they said.

A plan takes as long as composing a configuration, so it is cached for the same words while the files behind it are
unchanged. Each plan has a limit of time and memory in a process of a pool; one that exceeds it is refused, and others
are made meanwhile.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.subprocesses.pool import Pool, TooLongError

Stamp = list[int] | None  # a file's time and size; None if it does not exist


def stamp_of(path: str) -> Stamp:
    """Returns the file's present stamp, as plain values for JSON."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size]


MODULE = "dragoman.services.jobs.planning.worker"
COMPUTING = 15.0  # CPU seconds per plan
PROCESSES = 3  # at most; one owner never holds the last one
KEPT = 500  # cached plans


class RefusedPlanError(UserError):
    """The command itself refuses a submission that names these places; see `refusals.check_values`."""

    def __init__(self, message: str, places: list[dict[str, str]]) -> None:
        super().__init__(message)
        self.places = places


class PlanFaultError(Exception):
    """A fault of the program, which another try would meet again."""


class Planner:
    """The plans of all owners."""

    def __init__(self, roots: Sequence[Path], secrets: Sequence[Path] = ()) -> None:
        """`roots` are the home and other folders that jobs may read; `secrets` are the service's files in them."""
        self.roots, self.secrets = [str(root) for root in roots], [str(secret) for secret in secrets]
        self.pool = Pool(MODULE, PROCESSES, COMPUTING)
        self._lock = threading.Lock()  # guards the caches
        self._fields: dict[tuple[Any, ...], dict[str, Any]] = {}  # depends only on the code
        self._plans: OrderedDict[str, tuple[str, dict[str, Stamp]]] = OrderedDict()  # question -> answer, files read

    def plan(
        self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False, owner: str = "", *visible: str
    ) -> dict[str, Any]:
        """Returns the plan of a submission by `owner`; with `visible` folders, on the only shards in them.

        Raises:
            UserError: it is refused, or planning it takes too much computing or memory.
            ServiceError: the planner is busy or has gone, or a server or disk has failed: another try may succeed.
            PlanFaultError: the planner failed.
        """
        where = {"roots": self.roots, "secrets": self.secrets}
        question = {"verb": verb, "words": list(words), **where, "gpus": gpus, "early": early, "visible": visible}
        request_line = json.dumps(question)
        with self._lock:
            line = self._recall(request_line)
        line = line or self._ask(question, owner)
        answer = _read(line, "plan")
        if answer["reads"]:
            with self._lock:
                self._keep(request_line, line, answer["reads"])
        plan: dict[str, Any] = answer["plan"]
        return plan

    def fields(self, verb: str, chosen: Mapping[str, str]) -> dict[str, Any]:
        """Returns the settings of the command, with the choices made of groups: see fields.py.

        Raises:
            UserError: an unknown command or choice.
            ServiceError, PlanFaultError: as `plan`.
        """
        key = (verb, *sorted(chosen.items()))
        if key not in self._fields:
            line = self._ask({"fields": verb, "chosen": dict(chosen)})
            self._fields[key] = _read(line, "fields")["fields"]
        return self._fields[key]

    def prepare(self) -> None:
        """Starts a process, so that the first question need not wait for loading."""
        self.pool.prepare()

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
        self.pool.close()

    def _ask(self, question: dict[str, Any], owner: str = "") -> str:
        try:
            return self.pool.ask(question, owner)
        except TooLongError as limit:
            return json.dumps({"refused": f"planning it takes more than {limit}: its settings are too large"})


def _read(line: str, name: str) -> dict[str, Any]:
    """Returns the answer in a line.

    Raises:
        UserError: the submission is refused.
        ServiceError, PlanFaultError: as `Planner.plan`.
    """
    answer: dict[str, Any] = json.loads(line) if line else {"failed": "its process has gone", "again": True}
    if "refused" in answer:
        raise RefusedPlanError(answer["refused"], answer.get("places", []))
    if name not in answer:
        kind = ServiceError if answer.get("again") else PlanFaultError
        raise kind(f"the planner failed: {answer.get('failed')}")
    return answer
