"""The planner's process: a line of JSON in, a line of JSON out, one after the other.

    python -m services.jobs.planning.worker

A process of its own because Hydra composes one configuration at a time, and because what a plan loads (torch, the
pipelines) the service itself has no use for.
"""

import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from model.errors import UserError
from services.jobs.planning.fields import fields
from services.jobs.planning.plan import make_plan
from services.jobs.planning.stamps import Stamp

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
    except Exception as problem:  # whatever it is, the next question is answered
        traceback.print_exc()
        return {"failed": f"{type(problem).__name__}: {problem}"}


def main() -> int:
    """Answer until the input ends."""
    os.nice(NICE)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    logging.getLogger().addHandler(logging.NullHandler())
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
