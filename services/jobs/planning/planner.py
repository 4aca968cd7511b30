"""Asks the planners' processes, and remembers what they said.

A plan takes as long as composing a configuration, so it is cached for the same words while the files behind it are
unchanged. Each plan has a limit of time and memory in a child process; one that exceeds it is refused, and others are
made meanwhile.
"""

import copy
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
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
PROCESSES = 3  # at most; the intake plans two of an owner at a time
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
        self._lock = threading.Lock()  # guards the cache
        self._plans: OrderedDict[str, dict[str, Any]] = OrderedDict()  # question -> answer, with the files it read

    def plan(
        self,
        verb: str,
        words: Sequence[str],
        gpus: float = 0.0,
        early: bool = False,
        owner: str = "",
        visible: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Returns the plan of an owner's submission; with `visible` folders, on the only shards in them.

        Raises:
            ServiceError: the planner has gone, or a server or disk has failed: another try may succeed.
            PlanFaultError: the planner failed.
        """
        question = {"verb": verb, "words": list(words), "owner": owner, "gpus": gpus, "early": early}
        question |= {"roots": self.roots, "secrets": self.secrets, "visible": list(visible)}
        request_line = json.dumps(question)
        with self._lock:
            answer = self._recall(request_line)
        answer = answer or _read(self._ask(question))
        if answer["reads"]:
            with self._lock:
                self._keep(request_line, answer)
        plan: dict[str, Any] = copy.deepcopy(answer["plan"])  # the kept one stays as it is
        return plan

    def prepare(self) -> None:
        """Starts a process, so that the first question need not wait for loading."""
        self.pool.prepare()

    def _recall(self, question: str) -> dict[str, Any] | None:
        """Returns the cached answer; None if there is none, or a file has changed."""
        answer = self._plans.get(question)
        if answer and any(stamp_of(path) != stamp for path, stamp in answer["reads"].items()):
            del self._plans[question]
            return None
        return answer

    def _keep(self, question: str, answer: dict[str, Any]) -> None:
        self._plans[question] = answer
        self._plans.move_to_end(question)
        while len(self._plans) > KEPT:
            self._plans.popitem(last=False)

    def close(self) -> None:
        """Ends the processes and their plans."""
        self.pool.close()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self.pool.ask(question)
        except TooLongError as limit:
            return {"refused": f"planning it takes more than {limit}: its settings are too large"}
        return answer


def _read(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer.

    Raises:
        ServiceError, PlanFaultError: as `Planner.plan`.
    """
    if "refused" in answer:
        raise RefusedPlanError(answer["refused"], answer.get("places", []))
    if "plan" not in answer:
        kind = ServiceError if answer.get("again") else PlanFaultError
        raise kind(f"the planner failed: {answer.get('failed')}")
    return answer
