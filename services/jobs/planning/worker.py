"""A planner's process: a line of JSON in, a line of JSON out, one after the other; the first says that it is ready.

    python -m services.jobs.planning.worker

A process of its own because Hydra composes one configuration at a time, and because what a plan loads (torch, the
pipelines) the service itself has no use for.
"""

import json
import logging
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

from model.errors import UserError
from services.jobs.planning.fields import fields
from services.jobs.planning.plan import make_plan
from services.jobs.planning.stamps import Stamp

MEMORY = 2 << 30  # bytes that planning may take beside what is loaded
TOO_LARGE = f"planning it needs more than {MEMORY >> 30} GiB of memory: its settings are too large"
NICE = 10  # requests come first where the machine is full; jobs, to which Ray gives 15, come last


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """`{"plan": ..., "reads": stamps}`, `{"fields": ...}`, `{"refused": reason, "places": ...}` or, a fault of ours,
    `{"failed": reason}`."""
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
    except Exception as problem:  # whatever it is, the next question is answered
        if "can't allocate memory" in str(problem):  # as torch says it
            return {"refused": TOO_LARGE, "spent": True}
        traceback.print_exc()
        return {"failed": f"{type(problem).__name__}: {problem}"}


def main() -> int:
    """Answer until the input ends, or a plan has taken all the memory there is for it."""
    os.nice(NICE)
    _limit_memory()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
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
    """Let allocations fail once MEMORY is taken: this process fails alone, and before the machine runs out."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)


if __name__ == "__main__":
    sys.exit(main())
