"""What doctor finds, and how it says it."""

import json
import socket
from pathlib import Path

import pytest
import torch

from bench.busy import busy_core
from dragoman.conf.showing import as_json
from dragoman.model import precision
from dragoman.services.commands import doctor as verb
from dragoman.services.commands import machine
from dragoman.services.commands.doctor import DoctorRoot, Finding, agent, doctor, mlflow, port, ray


def root(**changes: object) -> DoctorRoot:
    values = {
        "paths": {"root": "artifacts", "cache": "cache"},
        "tracking": {"uri": "sqlite:///none.db"},
        "cluster": {"address": None},
    }
    return DoctorRoot(**{**values, "serve": {"host": "127.0.0.1", "port": 0}, **changes})  # type: ignore[arg-type]


def test_the_report_names_what_the_machine_offers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: "3 of 64 (a processor)")
    monkeypatch.setattr(machine, "busy_cores", lambda: 1.46)
    monkeypatch.setattr(machine, "memory", lambda: (16.0, 1.5))
    monkeypatch.setattr(machine, "free_disk", lambda path: (100.0, 40.0) if path == tmp_path else (4.0, 0.25))
    monkeypatch.setattr(machine, "gpus", lambda: ["a card, 80 GiB"])
    with as_json():
        code = doctor(root(paths={"root": str(tmp_path), "cache": str(tmp_path)}))
    assert code == 0  # a note is nothing that is missing
    report = {name: (entry["state"], entry["text"]) for name, entry in json.loads(capsys.readouterr().out).items()}
    assert report["cores"] == ("ok", "3 of 64 (a processor)")
    assert report["busy cores"][0] == "note"
    assert report["busy cores"][1].startswith("1.5 are in use by other programs: ")
    assert report["memory"] == ("note", "1.5 GiB available of 16.0 GiB")
    assert report["disk"] == ("ok", f"40.0 GiB free of 100.0 GiB at {tmp_path}")
    assert report["shared memory"] == ("note", "0.2 GiB free of 4.0 GiB at /dev/shm")
    assert report["GPU 0"] == ("ok", "a card, 80 GiB")
    assert f"torch {torch.__version__.partition('+')[0]}" in report["libraries"][1]
    assert report["MLflow"] == ("ok", "sqlite:///none.db (made by the first run)")
    assert report["serve.port"] == ("ok", "a free one will be taken")


def test_cores_that_others_keep_busy_are_seen() -> None:
    with busy_core():
        assert machine.busy_cores(1.0) > 0.4
    assert verb.busy(0.1) == Finding("busy cores", "ok", "0.1 are in use by other programs")


@pytest.mark.parametrize(("found", "state", "taken"), [("avx512_bf16", "ok", "takes it"), ("", "note", "takes fp32")])
def test_the_report_says_what_training_will_take(
    monkeypatch: pytest.MonkeyPatch, found: str, state: str, taken: str
) -> None:
    monkeypatch.setattr(precision, "bf16_instructions", lambda: found)
    monkeypatch.setattr(precision, "cannot_run", lambda *_: None)
    finding = {one.name: one for one in verb.matrices()}["bf16"]
    assert finding.state == state
    assert finding.text.endswith(f"train.precision=auto {taken}")


def test_something_missing_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(verb, "LIBRARIES", ("torch", "no-such-library"))
    assert doctor(root()) == 1
    assert "no-such-library: not installed" in capsys.readouterr().out


def test_a_cluster_and_a_server_are_told_of_without_their_secrets() -> None:
    assert ray("http://127.0.0.1:9").state == "missing"
    assert ray(None).text.startswith("embedded")
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        there = f"127.0.0.1:{head.getsockname()[1]}"
        assert ray(there) == Finding("Ray cluster", "ok", f"{there} answers")
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
        found = port("serve.port", "127.0.0.1", number)
        assert (found.state, f"{number} on 127.0.0.1: Address already in use" in found.text) == ("note", True)
    assert port("serve.port", "127.0.0.1", number) == Finding("serve.port", "ok", f"{number} is free on 127.0.0.1")
