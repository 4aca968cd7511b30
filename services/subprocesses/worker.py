"""The child's side of a pool: answers a line of JSON with a line of JSON."""

import contextlib
import json
import logging
import math
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.model import landlock
from dragoman.model.errors import UserError, is_infrastructure

MEMORY = 2 << 30  # bytes for a question, beyond what is loaded
NICE = 10  # on a full machine requests come first, and jobs, to which Ray gives 15, last


class Parent:
    """The process that asks, and may be asked back in the middle of a question."""

    def __init__(self, computing: float) -> None:
        """`computing`: CPU seconds from a line to the next, after which the system ends this process."""
        self._computing = computing
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # a library's output is no answer

    def read(self) -> dict[str, Any]:
        """Returns the next question. Raises EOFError: there is none any more."""
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        most = math.ceil(time.process_time() + self._computing)
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        question: dict[str, Any] = json.loads(line)
        return question

    def write(self, answer: dict[str, Any]) -> None:
        self._out.write(json.dumps(answer) + "\n")
        self._out.flush()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns the parent's answer."""
        self.write({"asks": question})
        return self.read()


def serve(
    answer: Callable[[dict[str, Any], Parent], dict[str, Any]],
    what: str,
    computing: float,
    memory: int = MEMORY,
    files: bool = True,
) -> int:
    """Answers until the input ends, or a question has used all its memory. `what` needs the memory, in messages.

    `computing`: CPU seconds of a question, after which the system ends this process.
    Without `files` it reads no files but the programs' own, where the kernel can forbid it.
    """
    os.nice(NICE)
    for number in (signal.SIGTERM, signal.SIGINT):  # of a whole group: the parent, which gets it too, ends this process
        signal.signal(number, signal.SIG_IGN)
    limit_memory(memory)
    if not files:
        close_files()
    logging.getLogger().addHandler(logging.NullHandler())
    parent = Parent(computing)
    with contextlib.suppress(EOFError):
        while True:
            reply = answer_or_refuse(lambda question: answer(question, parent), parent.read(), what, memory)
            parent.write(reply)
            if reply.get("spent"):
                return 1
    return 0


def answer_or_refuse(
    answer: Callable[[dict[str, Any]], dict[str, Any]], question: dict[str, Any], what: str, memory: int = MEMORY
) -> dict[str, Any]:
    """Returns the answer, `{"refused": reason}`, or `{"failed": reason, "again": may another try succeed}`."""
    size = f"{memory >> 30} GiB" if memory >= 1 << 30 else f"{memory >> 20} MiB"
    too_large = {"refused": f"{what} needs more than {size} of memory", "spent": True}
    try:
        return answer(question)
    except UserError as problem:
        return {"refused": str(problem)}
    except MemoryError:
        return too_large
    except EOFError:  # the parent has gone
        raise
    except Exception as problem:  # the next question must be answered in any case
        if "can't allocate memory" in str(problem):  # torch's message
            return too_large
        traceback.print_exc()
        return {"failed": f"{type(problem).__name__}: {problem}", "again": is_infrastructure(problem)}


def close_files() -> None:
    """Closes all files but the programs' own to this process: no library hands out what the server may read."""
    if landlock.version():
        code = Path(__file__).resolve().parents[2]
        places = [code / name for name in ("dragoman", "model", "pipelines", "services", "conf")]
        places += [Path(place) for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]
        places += [Path(place) for place in (sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64")]
        landlock.restrict((place, landlock.READ) for place in places)


def limit_memory(memory: int) -> None:
    """Lets allocations fail beyond so many bytes: only this process fails, before the machine runs out."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory,) * 2)
