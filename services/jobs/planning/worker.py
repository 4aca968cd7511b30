"""A planner's process, of a pool: `python -m dragoman.services.jobs.planning.worker`.

It is a separate process because Hydra composes one configuration at a time, and because the service itself does not
need torch and the pipelines, which a plan loads.
"""

import sys
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.services.from_home import own_words
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.planning.planner import COMPUTING
from dragoman.services.subprocesses.worker import serve

WHAT = "planning it, with settings that are too large,"


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Returns `{"plan": ..., "reads": stamps}` or `{"refused": reason, "places": ...}`."""
    roots = [Path(root) for root in question["roots"]]
    secrets = [Path(secret) for secret in question["secrets"]]
    verb, words, visible = question["verb"], question["words"], {*question.get("visible", ())}
    try:
        if visible:
            words = [*own_words(verb, words, roots[0], lambda folder: str(folder) in visible), *words]
        plan = make_plan(verb, words, roots, question["gpus"], question["early"], secrets, question["owner"])
        return {"reads": plan.pop("reads"), "plan": plan}
    except UserError as problem:
        return {"refused": str(problem), "places": getattr(problem, "places", [])}


if __name__ == "__main__":
    sys.exit(serve(lambda question, _: answer(question), WHAT, COMPUTING))
