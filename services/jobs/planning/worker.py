"""A planner's process: one line of JSON in, one line of JSON out; the first line reports that it is ready.

    python -m dragoman.services.jobs.planning.worker

It is a separate process because Hydra composes one configuration at a time, and because the service itself does not
need torch and the pipelines, which a plan loads.
"""

import json
import logging
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.services.jobs.planning.fields import fields
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.planning.stamps import Stamp

MEMORY = 2 << 30  # bytes for planning, beyond what is loaded
TOO_LARGE = f"planning it needs more than {MEMORY >> 30} GiB of memory: its settings are too large"
NICE = 10  # on a full machine requests come first, and jobs, to which Ray gives 15, last


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Returns `{"plan": ..., "reads": stamps}`, `{"fields": ...}`, `{"refused": reason, "places": ...}` or, for a
    fault of the program, `{"failed": reason}`."""
    places: list[dict[str, str]] = []
    try:
        if "fields" in question:
            return {"fields": fields(question["fields"], question["chosen"])}
        roots = [Path(root) for root in question["roots"]]
        reads: dict[str, Stamp] = {}
        secrets = [Path(secret) for secret in question["secrets"]]
        asked = (question["verb"], question["words"], roots, question["gpus"], question["early"])
        plan = make_plan(*asked, reads, secrets, places)
        return {"plan": plan, "reads": reads}
    except UserError as problem:
        return {"refused": str(problem), "places": places}
    except MemoryError:
        return {"refused": TOO_LARGE, "spent": True}
    except Exception as problem:  # the next question must be answered in any case
        if "can't allocate memory" in str(problem):  # torch's message
            return {"refused": TOO_LARGE, "spent": True}
        traceback.print_exc()
        return {"failed": f"{type(problem).__name__}: {problem}"}


def main() -> int:
    """Answers until the input ends, or a plan has used all its memory."""
    os.nice(NICE)
    _limit_memory()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library's output is no answer
    logging.getLogger().addHandler(logging.NullHandler())
    answers.write('{"ready": true}\n')
    answers.flush()
    for line in sys.stdin:
        found = answer(json.loads(line))
        answers.write(json.dumps(found) + "\n")
        answers.flush()
        if found.get("spent"):
            return 1
    return 0


def _limit_memory() -> None:
    """Lets allocations fail beyond MEMORY: only this process fails, before the machine runs out."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)


if __name__ == "__main__":
    sys.exit(main())
