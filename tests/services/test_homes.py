"""A home that cannot be used, a ledger that cannot be opened: one line and an exit code, never a traceback."""

import shlex
import sys
from pathlib import Path

import pytest

from dragoman.model.errors import ServiceError
from dragoman.services import cli
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.verbs import VERBS

MORE = {  # what a verb must be told, to come as far as its home
    "verify": "RUN",
    "inspect": "PLACE",
    "neighbours": "dog",
    "analogy": "a b c",
    "shard": "corpus=everyday",
    "submit": "train",
    "sweep": "train model.dropout=choice(0.1,0.2)",
    "compare": "models=[transformer_tiny]",
    **dict.fromkeys(("job", "why", "logs", "stop", "yield"), "j1"),
    "up": "service.port=0",
    "serve": "serve.port=0",
}
WRITERS = ("shard", "up")  # verbs that would write there first of all; of others a finished run is missing


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = cli.main(words)
    return code, capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_a_home_that_is_a_file_is_refused_in_a_line(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.touch()
    monkeypatch.setenv("DRAGOMAN_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    code, error = said([verb, *shlex.split(MORE.get(verb, ""))], capsys)
    assert code == 2 and "Traceback" not in error
    assert len(error.splitlines()) == 1 and str(home) in error


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that nobody can write to, whoever they are")
@pytest.mark.parametrize("verb", WRITERS)
def test_a_home_that_cannot_be_written_is_refused_in_a_line(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", "/proc/home")
    code, error = said([verb, *shlex.split(MORE.get(verb, ""))], capsys)
    assert code == 2 and "Traceback" not in error and "/proc/home" in error.splitlines()[-1]


def test_a_ledger_that_is_damaged_or_no_database_is_named(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    Database(f"sqlite:///{ledger}").close()
    for other in tmp_path.glob("ledger.db-*"):
        other.unlink()
    sound = ledger.read_bytes()
    one_page = sound[: 11 * 4096] + b"\xff" * 4096 + sound[12 * 4096 :]  # which a start alone would not read
    for content in (sound[:4096] + b"\xff" * 60_000, one_page, b"not a database" * 500):
        ledger.write_bytes(content)
        with pytest.raises(ServiceError, match=r"service\.ledger: the database .* restore it from"):
            Database(f"sqlite:///{ledger}")
