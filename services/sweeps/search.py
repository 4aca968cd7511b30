"""The search: proposes settings, submits them as a job, watches its curve, prunes bad trials, reports the result.

The study's file and the ledger hold all state, so a killed search resumes with the same command. It finds a trial's job
again by its name, or submits it again under the same key, which makes no second job.
"""

import logging
import time
from collections.abc import Callable, Sequence

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from dragoman.model.errors import FailedError, ServiceError, UserError
from dragoman.model.plural import plural
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.connection import NotFoundError
from dragoman.services.jobs.states import ENDED
from dragoman.services.sweeps.settings import SweepConfig
from dragoman.services.sweeps.space import Space
from dragoman.services.sweeps.study import best_of, finished, shown

TICK = 1.0  # seconds between two checks of running jobs
TRIED = ("registry.register=false", "evaluate.split=valid")  # a trial is not registered, and does not use the test set
HOPELESS = 3  # failed trials before any value that end the sweep
logger = logging.getLogger(__name__)


class Search:
    """A study on the jobs of one service."""

    def __init__(
        self,
        client: JobClient,
        study: optuna.Study,
        space: Space,
        config: SweepConfig,
        *,
        most: int,
        common: Sequence[str] = (),
        tick: float = TICK,
    ) -> None:
        """`common`: words of every trial that are none of its settings; `most`: the number of trials."""
        self.client, self.study, self.space, self.config = client, study, space, config
        self.most, self.common, self.tick = most, tuple(common), tick
        self.told: dict[int, int] = {}  # trial -> validations reported to the study

    def run(self, progress: Callable[[], None] = lambda: None) -> None:
        """Runs until all trials have ended; calls `progress` after each."""
        while True:
            running = self._running()
            while len(running) < self.config.parallel and self._count_begun() < self.most:
                running.append(self._begin(self.study.ask(dict(self.space.varied))))
            if not running:
                return
            for trial in running:
                if self._check_trial(trial):
                    progress()
            self._check_hope()
            time.sleep(self.tick)

    def name(self, number: int) -> str:
        """Returns the name of a trial's run."""
        return f"{self.study.study_name}-{number:03d}"

    def words(self, trial: Trial | FrozenTrial) -> list[str]:
        """Returns the overrides of a trial's job. The user's words override `TRIED`; the sweep's own come last."""
        return [*TRIED, *self.release_words(trial)]

    def release_words(self, trial: Trial | FrozenTrial) -> list[str]:
        """Returns the overrides that make it an ordinary training: evaluated on the test set."""
        return [*self.space.words(trial.params), *self.common, f"name={self.name(trial.number)}"]

    def _count_begun(self) -> int:
        return sum(trial.state != TrialState.WAITING for trial in self.study.get_trials(deepcopy=False))

    def _running(self) -> list[Trial]:
        """Returns trials whose jobs have not ended; submits a missing job."""
        open_trials = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        trials = [Trial(self.study, trial._trial_id) for trial in open_trials]
        return [trial if "job" in trial.user_attrs else self._begin(trial) for trial in trials]

    def _begin(self, trial: Trial) -> Trial:
        """Submits the trial's job."""
        key = f"{self.study.study_name[:40]}-{trial.number}-{int(trial.datetime_start.timestamp())}"  # type: ignore[union-attr]
        job = self.client.submit("train", self.words(trial), key=key)
        trial.set_user_attr("job", job["id"])
        logger.info(
            "trial %d, %d of %d: %s  (%s)", trial.number, trial.number + 1, self.most, _settings(trial), job["id"]
        )
        return trial

    def _check_trial(self, trial: Trial) -> bool:
        """Reports a trial's news to the study; returns True if it has ended."""
        try:
            job = self.client.job(trial.user_attrs["job"])
            curve = dict(self.client.call("curves", id=job["id"])["curves"].get(self.config.metric, []))
        except NotFoundError:
            self._tell(trial, TrialState.FAIL, None, "its job was removed")
            return True
        values = [float(curve[step]) for step in sorted(curve)]
        before = self.told.get(trial.number, len(self.study.trials[trial.number].intermediate_values))
        lost = False
        for place in range(before, len(values)):  # check after each: a rung compares trials at its own place
            trial.report(values[place], place + 1)
            lost = trial.should_prune() or lost
        self.told[trial.number] = max(before, len(values))
        best = best_of(values, self.config.direction) if values else None
        if job["state"] in ENDED:
            self._end(trial, job["state"], job["reason"], best)
            return True
        if lost:
            try:
                self.client.call("stop", id=job["id"])
            except UserError:
                return False  # it has ended in the meantime: the next check finds out how
            after = plural(len(values), "validation")
            self._tell(trial, TrialState.PRUNED, best, f"ended after {after}: others do better")
            return True
        return False

    def _end(self, trial: Trial, state: str, reason: str, best: float | None) -> None:
        if state == "succeeded" and best is not None:
            self._tell(trial, TrialState.COMPLETE, best, "")
        elif state == "succeeded":
            self._tell(trial, TrialState.FAIL, None, f"its journal has no {self.config.metric}")
        elif state == "stopped" and best is not None:
            self._tell(trial, TrialState.PRUNED, best, "stopped by somebody")
        else:
            self._tell(trial, TrialState.FAIL, None, f"{state}: {reason}")

    def _tell(self, trial: Trial, state: TrialState, value: float | None, reason: str) -> None:
        if reason:
            trial.set_user_attr("reason", reason)
        if state == TrialState.PRUNED and value is not None:
            trial.set_user_attr("best", value)
            self.study.tell(trial, state=state)  # its value is its last report
        else:
            self.study.tell(trial, value, state=state)
        outcome = f"{self.config.metric} {value:.5g}" if value is not None else reason
        ending = {TrialState.PRUNED: f", {reason}"}.get(state, "") if value is not None else ""
        logger.info("trial %d: %s%s  (%s)", trial.number, outcome, ending, _settings(trial))

    def _check_hope(self) -> None:
        failed = self.study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
        if len(failed) >= min(HOPELESS, self.most) and not finished(self.study):
            raise UserError(f"{len(failed)} trials failed and none has a value; the last: {_reason(failed[-1])}")


def release(search: Search, best: FrozenTrial, timeout: float = 3600.0) -> str:
    """Evaluates the best trial on the test set, registers it, and promotes it if it passes the gate; returns the
    result.
    """
    job = search.client.submit("train", [*search.release_words(best), "registry.register=true"])
    _wait(search.client, job["id"], timeout)
    version = search.client.call("curves", id=job["id"])["released"]
    model, number = str(version.get("model")), str(version.get("version"))
    gate = search.client.submit("promote", [*search.space.fixed, f"promote.version={number}"], after=[job["id"]])
    _wait(search.client, gate["id"], timeout)
    return f"{model} version {number}"


def _wait(client: JobClient, name: str, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while (job := client.job(name))["state"] not in ENDED:
        if time.monotonic() > deadline:
            raise ServiceError(f"job {name} has not ended; follow it with: dragoman job {name}")
        time.sleep(TICK)
    if job["state"] != "succeeded":
        raise FailedError(f"job {name}: {job['state']}: {job['reason']} (dragoman logs {name})")


def _settings(trial: Trial | FrozenTrial) -> str:
    return " ".join(f"{key}={shown(value)}" for key, value in trial.params.items())


def _reason(trial: FrozenTrial) -> str:
    return str(trial.user_attrs.get("reason", "no reason is known"))
