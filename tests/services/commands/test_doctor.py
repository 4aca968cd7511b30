"""What doctor finds, and how it says it."""

import json
import socket
from pathlib import Path

import pytest
import torch

from dragoman.conf.showing import as_json
from dragoman.model import precision
from dragoman.services.commands import doctor as verb
from dragoman.services.commands.doctor import DoctorRoot, Finding, doctor, mlflow, ray


def root(folder: Path) -> DoctorRoot:
    return DoctorRoot({"root": str(folder), "cache": str(folder)}, {"uri": "sqlite:///none.db"}, {"address": None})


def test_the_report_names_what_the_machine_offers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "memory", lambda: (16 * 2**30, 3 * 2**29))
    with as_json():
        code = doctor(root(tmp_path / "new"))
    assert code == 0  # a note is nothing that is missing
    report = {name: (entry["state"], entry["text"]) for name, entry in json.loads(capsys.readouterr().out).items()}
    assert report["memory"] == ("note", "1.5 GiB available of 16.0 GiB")
    assert report["disk"][1].endswith(f"GiB at {tmp_path / 'new'}")
    assert {"cores", "shared memory", "Landlock", "bf16"} <= report.keys()
    assert f"torch {torch.__version__.partition('+')[0]}" in report["dragoman"][1]
    assert report["Ray cluster"] == ("ok", "embedded")
    assert report["MLflow"] == ("ok", "sqlite:///none.db (made by the first run)")


@pytest.mark.parametrize(("found", "state", "taken"), [("avx512_bf16", "ok", "takes it"), ("", "note", "takes fp32")])
def test_the_report_says_what_training_will_take(
    monkeypatch: pytest.MonkeyPatch, found: str, state: str, taken: str
) -> None:
    monkeypatch.setattr(precision, "bf16_instructions", lambda: found)
    finding = {each.name: each for each in verb.torch()}["bf16"]
    assert finding.state == state
    assert finding.text.endswith(f"train.precision=auto {taken}")


def test_something_missing_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb, "LIBRARIES", ("torch", "no-such-library"))
    assert doctor(root(tmp_path)) == 1
    assert "no-such-library: not installed" in capsys.readouterr().out


def test_a_cluster_and_a_server_are_told_of_without_their_secrets() -> None:
    assert ray("http://127.0.0.1:9").state == "missing"
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        there = f"127.0.0.1:{head.getsockname()[1]}"
        assert ray(there) == Finding("Ray cluster", "ok", f"{there} answers")
    for uri in ("http://me:secret@127.0.0.1:9", "postgresql://me:secret@127.0.0.1:9/db"):
        finding = mlflow(uri)
        assert finding.state == "note"
        assert "secret" not in finding.text
