"""The run above a sweep's trials, with a stand-in for MLflow: what it is told, and that a sweep goes on without it."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.services.models.registry import Registry
from dragoman.services.sweeps.sweep import Parent, _ensure_end

RUN = "7" * 32


class Recorder:
    """MLflow's client, as far as it is asked."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}
        self.said: list[tuple[str, ...]] = []
        self.again: list[str] = []

    def get_experiment_by_name(self, name: str) -> None:
        self.said.append(("experiment", name))

    def create_experiment(self, name: str) -> str:
        return "1"

    def create_run(self, place: str, tags: dict[str, str], run_name: str) -> Any:
        self.tags |= tags
        self.said.append(("run", place, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id=RUN))

    def set_tag(self, run: str, key: str, text: str) -> None:
        assert run == RUN
        self.tags[key] = text

    def log_param(self, run: str, key: str, value: object) -> None:
        self.said.append(("param", key, str(value)))

    def log_metric(self, run: str, key: str, value: float) -> None:
        self.said.append(("metric", key, str(value)))

    def log_artifact(self, run: str, path: str) -> None:
        self.said.append(("artifact", Path(path).name))

    def update_run(self, run: str, state: str) -> None:
        self.again.append(state)

    def set_terminated(self, run: str, state: str) -> None:
        self.said.append(("end", state))


class Standing(Registry):
    def __init__(self, client: Recorder | None) -> None:
        super().__init__("http://127.0.0.1:1", Path())
        self.client = client

    @contextlib.contextmanager
    def asking(self) -> Iterator[Any]:
        if self.client is None:
            raise UserError("tracking_uri: nothing answers")
        yield self.client


def test_the_run_leads_to_its_trials_and_ends_with_the_best_and_the_pictures(tmp_path: Path) -> None:
    client = Recorder()
    parent = Parent(Standing(client), "dragoman", "search")
    assert parent.begin({"sampler": "tpe"}, "anna", "http://jobs.example/") == RUN
    assert f"](http://jobs.example/?sweep={RUN})" in client.tags["mlflow.note.content"]
    assert client.tags["kind"] == "sweep" and client.tags["mlflow.user"] == "anna"
    assert parent.begin({}, "anna", "http://jobs.example") == RUN  # one run, however often it is begun
    assert client.again == ["RUNNING"]  # one that was interrupted goes on
    parent.end({"best.valid_loss": 1.5}, {"best_trial": "3"}, [tmp_path / "importance.png"])
    assert client.said == [
        *(("experiment", "dragoman"), ("run", "1", "search"), ("param", "sampler", "tpe")),
        *(("metric", "best.valid_loss", "1.5"), ("artifact", "importance.png"), ("end", "FINISHED")),
    ]
    assert client.tags["best_trial"] == "3"


def test_a_sweep_goes_on_without_mlflow_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    parent = Parent(Standing(None), "dragoman", "search")
    with caplog.at_level(logging.WARNING):
        assert parent.begin({}, "anna", "http://jobs.example") is None
        assert parent.begin({}, "anna", "http://jobs.example") is None
        parent.end({}, {}, [], "FAILED")
    assert [record.getMessage() for record in caplog.records] == [
        "tracking_uri: nothing answers; the sweep goes on without its run in MLflow"
    ]


@pytest.mark.parametrize(("problem", "state"), [(KeyboardInterrupt(), "KILLED"), (UserError("no value"), "FAILED")])
def test_a_sweep_that_ends_early_says_so(problem: BaseException, state: str) -> None:
    client = Recorder()
    parent = Parent(Standing(client), "dragoman", "search")
    with pytest.raises(type(problem)), _ensure_end(parent):
        parent.begin({}, "anna", "http://jobs.example")
        raise problem
    assert client.said[-1] == ("end", state)
