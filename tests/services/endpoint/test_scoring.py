"""MLflow's scoring protocol."""

from importlib.metadata import version
from typing import Any

import pytest

from tests.services.endpoint.conftest import Stage


@pytest.mark.parametrize(
    "asked",
    [
        {"inputs": ["a", "b"]},
        {"inputs": {"text": ["a", "b"]}},
        {"instances": ["a", "b"]},
        {"instances": [{"text": "a"}, {"text": "b"}]},
        {"dataframe_records": [{"text": "a"}, {"text": "b"}]},
        {"dataframe_split": {"columns": ["text"], "data": [["a"], ["b"]]}},
        {"inputs": ["a", "b"], "params": {"source": "en", "target": "de", "format": "text"}},
    ],
)
def test_every_form_gives_predictions(stage: Stage, asked: dict[str, Any]) -> None:
    assert stage.client.post("/invocations", json=asked).json() == {"predictions": ["A", "B"]}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "exactly one of dataframe_split"),
        ({"inputs": ["a"], "instances": ["b"]}, "exactly one of"),
        ({"inputs": []}, "holds no texts"),
        ({"inputs": [1]}, "something else than one column of texts"),
        ({"dataframe_records": [{"text": "a", "more": "b"}]}, "something else than one column"),
        ({"inputs": ["a"], "params": {"beam": 4}}, "params takes source, target, format only"),
        ({"inputs": ["a"], "params": {"target": "fr"}}, "fr is not supported"),
    ],
)
def test_other_forms_are_refused_with_a_code(stage: Stage, asked: dict[str, Any], message: str) -> None:
    answer = stage.client.post("/invocations", json=asked)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "BAD_REQUEST")
    assert message in answer.json()["message"]


def test_ping_and_version(stage: Stage) -> None:
    assert stage.client.get("/ping").status_code == 200
    assert stage.client.get("/version").text == version("mlflow")
    stage.current[0] = None
    assert stage.client.get("/ping").status_code == 503
