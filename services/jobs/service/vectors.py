"""Asks the process that answers about word vectors; it starts on demand, see `vectors_worker`."""

import contextlib
import json
import select
import subprocess
import sys
import threading
from typing import Any

from dragoman.model.errors import ServiceError, UserError

COMMAND = [sys.executable, "-m", "dragoman.services.jobs.service.vectors_worker"]
PATIENCE = 120.0  # seconds of one answer; the first one of a model loads it
WAITING = 6  # requests at once; each holds a thread of the service


class VectorsProcess:
    """The process, which answers one question at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._turn = threading.Lock()
        self._waiting = threading.BoundedSemaphore(WAITING)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer; blocks until it is there.

        Raises:
            UserError: the question has no answer.
            ServiceError: too many ask at once, or the process has gone or takes too long.
        """
        if not self._waiting.acquire(blocking=False):
            raise ServiceError("too many questions about word vectors at once; try again in some seconds")
        try:
            with self._turn:
                line = self._ask(json.dumps(question)) or self._ask(json.dumps(question))  # it may have ended idle
        finally:
            self._waiting.release()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "its process has gone"}
        if "refused" in answer:
            raise UserError(answer["refused"])
        if "failed" in answer:
            raise ServiceError(f"word vectors: {answer['failed']}")
        return answer

    def _ask(self, line: str) -> str:
        """Returns the line of the answer; empty if the process has gone, and then the next question starts another."""
        if self._process is None:
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        process, answer = self._process, ""
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], PATIENCE)[0]:
                self.close()
                raise ServiceError(f"word vectors: no answer within {PATIENCE:g} s; try again, or a smaller model")
            answer = process.stdout.readline()
        if not answer:
            self.close()
        return answer

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
