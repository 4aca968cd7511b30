"""The work of `dragoman sweep`: the trials as jobs, the best of them, pictures, and one MLflow run above them."""

import contextlib
import getpass
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import optuna

from dragoman.conf import compose, showing
from dragoman.conf.interrupts import held_signals
from dragoman.model.errors import interrupt_in
from dragoman.model.runs.record import read_tracked, write_tracked
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.client import entries, table, verbs
from dragoman.services.jobs.up.mlflow_logins import local_login
from dragoman.services.models.registry import Registry
from dragoman.services.sweeps.parent import Parent
from dragoman.services.sweeps.pictures import draw
from dragoman.services.sweeps.search import Search, release
from dragoman.services.sweeps.settings import SweepRoot
from dragoman.services.sweeps.space import Space
from dragoman.services.sweeps.study import finished, most_trials, open_study, quiet_optuna, records
from dragoman.services.sweeps.study import table as rows

logger = logging.getLogger(__name__)


def sweep(root: SweepRoot, space: Space) -> int:
    """Searches until all trials have ended; prints the table and the best trial's words."""
    folder = Path(root.paths["root"]) / "sweeps" / root.name
    most = most_trials(root.sweep, space)
    service = entries.address(_job_settings(root))
    with quiet_optuna(), verbs.client(root.jobs, service, home=root.paths["root"]) as client:
        study = open_study(folder, root.name, root.sweep, space, root.seed)
        parent = _parent(root, folder)
        with _ensure_end(parent):
            run = parent.begin(_params(root, space, most), root.jobs.owner or getpass.getuser(), client.address)
            if run is not None:
                write_tracked(folder, {"run_id": run})
            else:
                logger.info("its trials: %s/?q=name:%s-*", client.address, root.name)
            common = [f"tracking.parent={run}"] if run else []
            search = Search(client, study, space, root.sweep, most=most, common=common)
            search.run()
            best = finished(study)[0]
            told = f"best: {' '.join(f'{key}={value}' for key, value in best.params.items())}"
            metric = root.sweep.metric
            showing.show(records(study, metric), lambda: f"{table.table(rows(study, metric))}\n{told}")
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


def _job_settings(root: SweepRoot) -> entries.Root:
    return entries.Root(jobs=root.jobs, paths=root.paths)


def _parent(root: SweepRoot, folder: Path) -> Parent:
    """Returns this sweep's existing run or a new one, at the MLflow that `dragoman up` started, if any."""
    begun, uri = read_tracked(folder).get("run_id"), str(root.tracking["uri"])
    place = Path(root.paths["root"]) / "service" / "address.json"
    if root.jobs.service is None and uri.startswith("sqlite") and place.is_file():
        uri = read_object(place).get("mlflow", uri)
        for name, value in local_login(place.parent).items():
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
    states = [one.state.name.lower() for one in study.trials]
    metrics = {f"best.{root.sweep.metric}": float(best.value or 0)}
    metrics |= {f"trials.{state}": float(states.count(state)) for state in sorted(set(states))}
    tags = {"best_trial": str(best.number), "best_job": str(best.user_attrs.get("job", ""))}
    return metrics, {**tags, **{f"best.{key}": str(value) for key, value in best.params.items()}}
