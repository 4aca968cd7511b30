"""The work of `dragoman sweep`: the trials as jobs, the best of them, pictures, and one MLflow run above them."""

import contextlib
import getpass
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna

from dragoman.conf import compose, showing
from dragoman.conf.interrupts import held_signals
from dragoman.model.errors import UserError, interrupt_in
from dragoman.model.runs.record import read_tracked, write_tracked
from dragoman.services.jobs.client import entries, table
from dragoman.services.jobs.up.mlflow import local_login
from dragoman.services.models.registry import Registry
from dragoman.services.sweeps.pictures import draw
from dragoman.services.sweeps.search import Search, release
from dragoman.services.sweeps.settings import SweepRoot
from dragoman.services.sweeps.space import Space
from dragoman.services.sweeps.study import finished, most_trials, open_study, quiet_optuna, records
from dragoman.services.sweeps.study import table as rows

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
            experiment = client.get_experiment_by_name(self.experiment)
            place = experiment.experiment_id if experiment else client.create_experiment(self.experiment)
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


def sweep(root: SweepRoot, space: Space) -> int:
    """Searches until all trials have ended; prints the table and the best trial's words."""
    folder = Path(root.paths["root"]) / "sweeps" / root.name
    most = most_trials(root.sweep, space)
    with quiet_optuna(), entries.connect(root) as client:
        study = open_study(folder, root.name, root.sweep, space, root.seed)
        parent = _parent(root, folder)
        with _ensure_end(parent):
            run = parent.begin(_params(root, space, most), root.jobs.owner or getpass.getuser(), client.address)
            if run is not None:
                write_tracked(folder, {"run_id": run})
            else:
                logger.info("its trials: %s/?q=name%%3D%s-*", client.address, root.name)
            common = [f"tracking.parent={run}"] if run else []
            search = Search(client, study, space, root.sweep, most=most, common=common)
            search.run()
            best = finished(study)[0]
            summary = f"best: {' '.join(f'{key}={value}' for key, value in best.params.items())}"
            metric = root.sweep.metric
            showing.show(records(study, metric), lambda: f"{table.table(rows(study, metric))}\n{summary}")
            outcome = release(search, best) if root.sweep.promote else ""
            if outcome:
                logger.info("%s: registered, and shown to the gate", outcome)
            pictures = draw(study, root.sweep.metric, folder)
            parent.end(*_outcome(study, root, best), pictures)
    logger.info("pictures: %s", folder)
    return compose.OK


@contextlib.contextmanager
def _ensure_end(parent: Parent) -> Iterator[None]:
    """Ends the sweep's MLflow run after the block, whatever happens; the same command begins it again."""
    try:
        yield
    except BaseException as problem:
        killed = interrupt_in(problem) is not None
        with held_signals("MLflow knows"):
            parent.end({}, {"reason": str(problem)}, [], "KILLED" if killed else "FAILED")
        raise


def _parent(root: SweepRoot, folder: Path) -> Parent:
    """Returns this sweep's existing run or a new one, at the MLflow that `dragoman up` started, if any."""
    begun, uri = read_tracked(folder).get("run_id"), str(root.tracking["uri"])
    here = entries.running_here(root.paths["root"])
    if root.jobs.service is None and uri.startswith("sqlite") and here:
        uri = here.get("mlflow", uri)
        for name, value in local_login(Path(root.paths["root"]) / "service").items():
            os.environ.setdefault(name, value)  # for MLflow's client
    return Parent(Registry(uri, folder), str(root.tracking["experiment"]), root.name, begun)


def _params(root: SweepRoot, space: Space, most: int) -> dict[str, object]:
    varied = {key: str(distribution) for key, distribution in space.varied.items()}
    fixed = {"overrides": " ".join(space.fixed)}
    chosen = {"sampler": root.sweep.sampler, "pruner": root.sweep.pruner, "metric": root.sweep.metric, "trials": most}
    return {**chosen, **fixed, **varied}


def _outcome(
    study: optuna.Study, root: SweepRoot, best: optuna.trial.FrozenTrial
) -> tuple[dict[str, float], dict[str, str]]:
    states = [trial.state.name.lower() for trial in study.trials]
    metrics = {f"best.{root.sweep.metric}": float(best.value or 0)}
    metrics |= {f"trials.{state}": float(states.count(state)) for state in sorted(set(states))}
    tags = {"best_trial": str(best.number), "best_job": str(best.user_attrs.get("job", ""))}
    return metrics, {**tags, **{f"best.{key}": str(value) for key, value in best.params.items()}}
