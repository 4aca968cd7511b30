"""What doctor finds, and how it says it."""

import json
import socket
from pathlib import Path

import pytest

from model import precision
from model.precision import Rates
from services.commands import doctor as verb
from services.commands.doctor import DoctorRoot, Finding, agent, doctor, mlflow, port, ray


def root(**changes: object) -> DoctorRoot:
    values = {"paths": {"root": "artifacts"}, "tracking": {"uri": "sqlite:///none.db"}, "cluster": {"address": None}}
    return DoctorRoot(**{**values, "serve": {"host": "127.0.0.1", "port": 0}, **changes})  # type: ignore[arg-type]


def test_the_report_names_what_the_machine_offers(capsys: pytest.CaptureFixture[str]) -> None:
    code = doctor(root(), as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert {"cores", "memory", "disk", "bf16", "numba", "Ray cluster", "MLflow", "serve.port"} <= set(report)
    assert "scipy" in report["libraries"]["text"]
    assert code == (1 if any(entry["state"] == "missing" for entry in report.values()) else 0)


@pytest.mark.parametrize(("bf16", "state", "taken"), [(100.0, "ok", "takes it"), (2.0, "note", "takes fp32")])
def test_the_report_says_what_training_will_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bf16: float, state: str, taken: str
) -> None:
    monkeypatch.setattr(precision, "measure", lambda: Rates(50.0, bf16))
    monkeypatch.setattr(precision, "cannot_run", lambda *_: None)
    finding = {one.name: one for one in verb.matrices(tmp_path)}["bf16"]
    assert finding.state == state
    assert f"{bf16 / 50:.1f} x fp32: train.precision=auto {taken}" in finding.text
    assert not list(tmp_path.iterdir())  # doctor changes nothing


def test_something_missing_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(verb, "LIBRARIES", ("torch", "no-such-library"))
    assert doctor(root(), as_json=False) == 1
    assert "no-such-library: not installed" in capsys.readouterr().out


def test_a_cluster_and_a_server_that_are_away_are_told_without_their_secrets() -> None:
    assert ray("http://127.0.0.1:9").state == "missing"
    assert ray(None).state == "ok"
    for uri in ("http://me:secret@127.0.0.1:9", "postgresql://me:secret@127.0.0.1:9/db"):
        finding = mlflow(uri)
        assert finding.state == "note"
        assert "secret" not in finding.text


def test_a_port_without_which_a_head_accepts_no_jobs_is_looked_at() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = agent(taken.getsockname()[1])
        assert found.state == "note"
        assert "--dashboard-agent-listen-port=0" in found.text
    assert agent(0).state == "ok"


def test_a_port_in_use_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert port("serve.port", "127.0.0.1", number).state == "note"
    assert port("serve.port", "127.0.0.1", 0) == Finding("serve.port", "ok", "a free one will be taken")
