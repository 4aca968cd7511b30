"""The MLflow run above the trials' runs: the search space, the best trial, and the pictures."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.services.models.registry import Registry

logger = logging.getLogger(__name__)
NOTE = "mlflow.note.content"
ABOUT = "Their runs are below this one. At its end it has the pictures as artifacts and the best settings as tags."


class Parent:
    """An MLflow run; its children name `run_id`.

    If MLflow is away, the sweep continues without it and logs that once. The trials' records wait in their spools.
    """

    def __init__(self, registry: Registry, experiment: str, name: str, run_id: str | None = None) -> None:
        """Continues `run_id`, or begins a new run."""
        self.registry, self.experiment, self.name, self.run_id = registry, experiment, name, run_id
        self._said = False

    def begin(self, params: Mapping[str, Any], user: str, pages: str) -> str | None:
        """Begins the run if there is none yet; returns its id, or None if MLflow does not answer.

        The description links to its trials on the job service's `pages`, and names the pictures to come.
        """

        def begin(client: Any) -> None:
            found = client.get_experiment_by_name(self.experiment)
            place = found.experiment_id if found else client.create_experiment(self.experiment)
            tags = {"kind": "sweep", "mlflow.user": user, "mlflow.source.name": "dragoman sweep"}
            self.run_id = str(client.create_run(place, tags=tags, run_name=self.name).info.run_id)
            for key, value in params.items():
                client.log_param(self.run_id, key, value)
            trials = f"{pages.rstrip('/')}/?sweep={self.run_id}"
            client.set_tag(self.run_id, NOTE, f"[Its trials]({trials}) as jobs. {ABOUT}")

        self._ask(begin if self.run_id is None else lambda client: client.update_run(self.run_id, "RUNNING"))
        return self.run_id

    def end(
        self, metrics: Mapping[str, float], tags: Mapping[str, str], files: Sequence[Path], state: str = "FINISHED"
    ) -> None:
        """Records the result."""

        def end(client: Any) -> None:
            for key, metric in metrics.items():
                client.log_metric(self.run_id, key, metric)
            for key, text in tags.items():
                client.set_tag(self.run_id, key, text)
            for path in files:
                client.log_artifact(self.run_id, str(path))
            client.set_terminated(self.run_id, state)

        if self.run_id is not None:
            self._ask(end)

    def _ask(self, work: Callable[[Any], None]) -> None:
        try:
            with self.registry.asking() as client:
                work(client)
        except (UserError, OSError) as problem:
            if not self._said:
                logger.warning("%s; the sweep goes on without its run in MLflow", problem)
            self._said = True
