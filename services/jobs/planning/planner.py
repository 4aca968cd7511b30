"""Asking the planner's process; it is started when it is needed first, and again when it has gone.

A plan takes as long as composing a configuration and building a network, so the plan of the same words is kept as long
as the files that it was made from are the same.
"""

import contextlib
import json
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model.errors import ServiceError, UserError
from services.jobs.planning.stamps import Stamp, stamp_of

PATIENCE = 120.0  # seconds for one plan; the first loads torch
KEPT = 500  # plans


class RefusedPlanError(UserError):
    """A refusal by the verb itself, of a submission that names these places; see `refusals.check_values`."""

    def __init__(self, message: str, places: list[dict[str, str]]) -> None:
        super().__init__(message)
        self.places = places


class Planner:
    """Plans, one at a time, whoever asks."""

    def __init__(self, roots: Sequence[Path], secrets: Sequence[Path] = ()) -> None:
        """`roots` are the home and the other folders that jobs may read, `secrets` files of the service in them."""
        self.roots, self.secrets = [str(root) for root in roots], [str(secret) for secret in secrets]
        self._lock = threading.Lock()
        self._fields: dict[tuple[Any, ...], dict[str, Any]] = {}  # they change with the code alone
        self._process: subprocess.Popen[str] | None = None
        self._plans: OrderedDict[str, tuple[str, dict[str, Stamp]]] = OrderedDict()  # question -> answer, what it read

    def plan(self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False) -> dict[str, Any]:
        """The plan of a submission.

        Raises:
            UserError: it is refused.
            ServiceError: the planner failed.
        """
        where = {"roots": self.roots, "secrets": self.secrets}
        asked = json.dumps({"verb": verb, "words": list(words), **where, "gpus": gpus, "early": early})
        with self._lock:
            line = self._recall(asked) or self._ask(asked)
        answer = _read(line, "plan")
        if answer["reads"]:
            with self._lock:
                self._keep(asked, line, answer["reads"])
        plan: dict[str, Any] = answer["plan"]
        return plan

    def fields(self, verb: str, chosen: Mapping[str, str]) -> dict[str, Any]:
        """What a submission of the verb can set, with the choices that are made of groups: see fields.py.

        Raises:
            UserError: no such verb or choice.
            ServiceError: the planner failed.
        """
        key = (verb, *sorted(chosen.items()))
        if key not in self._fields:
            with self._lock:
                line = self._ask(json.dumps({"fields": verb, "chosen": dict(chosen)}))
            self._fields[key] = _read(line, "fields")["fields"]
        return self._fields[key]

    def prepare(self) -> None:
        """Start its process, so that the first question need not wait until everything is loaded."""
        with self._lock:
            self._begin()

    def _recall(self, question: str) -> str:
        """The line that was answered before; empty where there is none, or a file has changed since."""
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
        """End the process."""
        with self._lock:
            self._end()

    def _ask(self, question: str) -> str:
        process = self._begin()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            process.stdin.write(question + "\n")
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            timer.cancel()

    def _begin(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "services.jobs.planning.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        process.kill()
        process.wait()


def _read(line: str, name: str) -> dict[str, Any]:
    """The answer in a line.

    Raises:
        UserError: it is refused.
        ServiceError: the planner failed.
    """
    answer: dict[str, Any] = json.loads(line) if line else {"failed": "it has gone or took too long"}
    if "refused" in answer:
        raise RefusedPlanError(answer["refused"], answer.get("places", []))
    if name not in answer:
        raise ServiceError(f"the planner failed: {answer.get('failed')}")
    return answer
