"""The search over a real job service whose jobs are processes: losers end early, nothing is tried twice."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.importance import FanovaImportanceEvaluator, get_param_importances

from dragoman.model.errors import UserError
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.sweeps.pictures import comparable, draw
from dragoman.services.sweeps.search import Search
from dragoman.services.sweeps.settings import SweepConfig
from dragoman.services.sweeps.space import Space, read_space
from dragoman.services.sweeps.study import finished, most_trials, open_study, quiet_optuna, table
from tests.services.jobs import processes
from tests.services.jobs.at_work import application

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`"),
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]
COMPLETE, PRUNED = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED
LOCAL = "http://127.0.0.1:8300"


class TrialPlanner(processes.StubPlanner):
    """Words are home=PATH steps=N x=SETTING ... name=RUN."""

    def plan(
        self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False, *_: object
    ) -> dict[str, Any]:
        values = dict(word.split("=", 1) for word in words)
        run = str(Path(values["home"]) / values["name"])
        given = [f"{key}={values[key]}" for key in ("home", "steps", "x", "name")]  # in the order of the stub
        return super().plan(verb, [f"run={run}", f"steps={values['steps']}"], gpus, early) | {"words": given}


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    one = processes.make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path)
    assert isinstance(one.executor, processes.ProcessExecutor)
    one.executor.stub = Path(__file__).with_name("stub_trial.py")
    one.intake.plans.planner = TrialPlanner(tmp_path)  # type: ignore[assignment]  # as far as it is asked
    one.capacity = one.executor.capacity()
    one.start()
    yield one
    one.stop()
    one.ledger.database.close()
    for process in processes.PROCESSES:
        process.wait(60)
    processes.PROCESSES.clear()


@pytest.fixture
def client(loop: Loop) -> Iterator[JobClient]:
    from fastapi.testclient import TestClient

    app = application(loop)
    with JobClient(LOCAL) as found, TestClient(app, base_url=LOCAL, headers={"X-Dragoman-Owner": "anna"}) as http:
        found._http = http
        yield found


def searching(client: JobClient, home: Path, config: SweepConfig, x: str, seed: int = 1) -> Search:
    space: Space = read_space([f"home={home}", "steps=9", f"x={x}"])
    with quiet_optuna():
        study = open_study(home / "sweeps", "s", config, space, seed)
    return Search(client, study, space, config, most=most_trials(config, space), tick=0.02)


def test_a_grid_is_tried_once_losers_end_early_and_the_best_is_found(
    client: JobClient, loop: Loop, tmp_path: Path
) -> None:
    config = SweepConfig(trials=20, sampler="grid", pruner="asha", reduction_factor=2, parallel=2)
    search = searching(client, tmp_path, config, "choice(0.3,0.9,0.5,2.5,5.5,0.4)")
    assert search.most == 6
    search.run()
    best, *others = finished(search.study)
    assert best.params == {"x": "0.3"} and best.value == pytest.approx(1 / 9)
    assert sorted(one.params["x"] for one in (best, *others)) == ["0.3", "0.4", "0.5", "0.9", "2.5", "5.5"]
    pruned = [one for one in others if one.state == optuna.trial.TrialState.PRUNED]
    assert "5.5" in {one.params["x"] for one in pruned}
    jobs = {one["id"]: one for one in client.jobs(limit=100)["jobs"]}
    assert len(jobs) == 6
    stopped = {job for job, one in jobs.items() if one["state"] in ("stopped", "stopping")}
    (slow,) = (one.user_attrs["job"] for one in pruned if one.params["x"] == "5.5")
    assert slow in stopped  # a quicker one may have come to its end before it heard
    assert stopped <= {one.user_attrs["job"] for one in pruned}
    tried = jobs[best.user_attrs["job"]]["words"]
    assert tried[-1].startswith("name=s-00")
    assert {"evaluate.split=valid", "registry.register=false"} <= set(tried)  # the test set is for the best alone
    assert not {"evaluate.split=valid", "registry.register=false"} & set(search.release_words(best))
    rows = table(search.study, "valid_loss")
    assert rows[0] == ["TRIAL", "JOB", "STATE", "valid_loss", "x"] and rows[1][4] == "0.3" and len(rows) == 7
    pictures = draw(search.study, "valid_loss", tmp_path)
    assert {path.name for path in pictures} >= {"parallel-coordinates.png", "curves.png"}
    assert all(path.stat().st_size > 5000 for path in pictures)


def test_a_search_that_is_killed_goes_on_and_submits_nothing_twice(
    client: JobClient, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SweepConfig(trials=4, sampler="random", pruner="none", parallel=2)
    first = searching(client, tmp_path, config, "interval(0,1)")
    real = client.submit
    calls: list[str] = []

    def dies(verb: str, overrides: Sequence[str], **more: Any) -> Any:
        job = real(verb, overrides, **more)
        calls.append(job["id"])
        if len(calls) == 2:
            raise KeyboardInterrupt  # submitted, and the study has not heard of it
        return job

    monkeypatch.setattr(client, "submit", dies)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    second = searching(client, tmp_path, config, "interval(0,1)", seed=7)
    second.run()
    assert len(finished(second.study)) == 4
    assert {one["id"] for one in client.jobs(limit=100)["jobs"]} == set(calls) and len(set(calls)) == 4
    assert sorted(path.name for path in tmp_path.glob("s-0*")) == ["s-000", "s-001", "s-002", "s-003"]
    with pytest.raises(UserError, match="begun with another space"):
        searching(client, tmp_path, config, "interval(0,2)")


def test_a_grid_that_was_killed_while_it_queued_tries_every_combination_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SweepConfig(trials=100, sampler="grid", pruner="none")
    space = read_space(["x=choice(1,2,3)", "y=choice(1,2,3)"])
    real, queued = optuna.Study.enqueue_trial, iter(range(4))

    def dies(study: optuna.Study, params: dict[str, Any]) -> None:
        if next(queued) == 3:
            raise KeyboardInterrupt
        real(study, params)

    with quiet_optuna(), monkeypatch.context() as patched:
        patched.setattr(optuna.Study, "enqueue_trial", dies)
        with pytest.raises(KeyboardInterrupt):
            open_study(tmp_path, "s", config, space, 1)
    with quiet_optuna():
        study = open_study(tmp_path, "s", config, space, 1)
        trials = [study.ask(dict(space.varied)) for _ in range(most_trials(config, space))]
    assert len({tuple(trial.params.items()) for trial in trials}) == len(study.trials) == 9


def test_a_trial_whose_job_was_removed_has_failed(client: JobClient, loop: Loop, tmp_path: Path) -> None:
    config = SweepConfig(trials=2, sampler="random", pruner="none", parallel=1)
    search = searching(client, tmp_path, config, "interval(0,1)")
    first = search._begin(search.study.ask(dict(search.space.varied)))
    while client.job(first.user_attrs["job"])["state"] != "succeeded":
        time.sleep(0.05)
    client.call("remove", id=first.user_attrs["job"])
    search.run()
    assert [trial.state.name for trial in search.study.trials] == ["FAIL", "COMPLETE"]
    assert search.study.trials[0].user_attrs["reason"] == "its job was removed"


def test_a_sweep_without_hope_ends_and_says_why(client: JobClient, loop: Loop, tmp_path: Path) -> None:
    config = SweepConfig(trials=9, sampler="random", parallel=1)
    search = searching(client, tmp_path, config, "choice(broken)")
    with pytest.raises(UserError, match="3 trials failed and none has a value; the last: failed"):
        search.run()


def test_tpe_learns_which_setting_is_best(tmp_path: Path) -> None:
    """Without jobs: what Optuna is asked for and told."""
    config = SweepConfig(trials=30, parallel=1)
    with quiet_optuna():
        study = open_study(tmp_path, "s", config, read_space(["x=interval(-3,3)", "y=choice(a,b)"]), 1)
        for _ in range(config.trials):
            trial = study.ask(dict(read_space(["x=interval(-3,3)", "y=choice(a,b)"]).varied))
            study.tell(trial, (trial.params["x"] - 1) ** 2 + (trial.params["y"] == "b"))
        best = finished(study)[0]
    assert abs(best.params["x"] - 1) < 0.3 and best.params["y"] == "a"


def test_where_most_were_pruned_importance_compares_what_all_came_to(tmp_path: Path) -> None:
    space = read_space(["x=interval(0,1)", "y=choice(a,b)"])
    with quiet_optuna():
        study = open_study(tmp_path, "s", SweepConfig(sampler="random", pruner="none"), space, 1)
        for number in range(8):
            trial = study.ask(dict(space.varied))
            for step in range(1, 3 if number else 7):  # the first goes on, the others end after two validations
                trial.report(trial.params["x"] + 1 / step, step)
            study.tell(trial, trial.params["x"] if number == 0 else None, COMPLETE if number == 0 else PRUNED)
        compared, after = comparable(study)
        assert compared is not None
        weights = get_param_importances(compared, evaluator=FanovaImportanceEvaluator(seed=1))
        pictures = draw(study, "valid_loss", tmp_path)
    assert after == 2 and weights["x"] > 0.9 > 0.1 > weights["y"]
    assert "importance.png" in {path.name for path in pictures}
