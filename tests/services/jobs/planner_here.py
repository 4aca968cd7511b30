"""The service's own planner without its process, which takes three CPU seconds to start."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.services.jobs.planning import worker
from dragoman.services.jobs.planning.planner import Planner
from dragoman.services.subprocesses.worker import answer_or_refuse


class PlannerHere(Planner):
    """Makes its plans in the thread that asks."""

    def __init__(self, roots: Sequence[Path], secrets: Sequence[Path] = ()) -> None:
        super().__init__(roots, secrets)
        self._turn = threading.Lock()  # Hydra composes one configuration at a time

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._turn:
            return answer_or_refuse(worker.answer, question, worker.WHAT)
