"""A job's process looks once more at what was planned, has no token that it does not need, and runs the verb."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.confinement import VARIABLE, Grant
from dragoman.model.errors import UserError
from dragoman.services.jobs.confined import ADDRESS, check_again, keep_token
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.service.ownership import Ownership
from dragoman.services.jobs.service.tracking import Tracking

TEXT = ["corpus=text", "pair=en", "tokenizer=characters"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for folder in ("service", "jobs", "corpora", "shards", "runs"):
        (home / folder).mkdir(parents=True)
    (home / "service/session_key").write_text("the secret\n" * 100)
    (home / "corpora/books.txt").write_text("a line of a book\n" * 200)
    monkeypatch.setenv("DRAGOMAN_HOME", str(home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return home


def granted(home: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """What the service grants the job of a plan."""
    ledger = Ledger(Database(f"sqlite:///{home}/service/ledger.db"))
    found = Ownership(ledger, home, Tracking("", "")).grant("anna", plan["places"])
    ledger.database.close()
    return {"roots": [str(home)], "secrets": [], **found}


def grant_of(home: Path, plan: dict[str, Any]) -> Grant:
    return Grant(**{name: tuple(paths) for name, paths in granted(home, plan).items()})


def test_a_link_that_was_changed_after_the_plan_is_refused(home: Path) -> None:
    (home / "corpora/link.txt").symlink_to("books.txt")
    words = [*TEXT, f"corpus.train.file={home}/corpora/link.txt"]
    grant = grant_of(home, make_plan("shard", words, [home], 0.0))
    check_again("shard", [*words, ADDRESS], grant)
    (home / "corpora/link.txt").unlink()
    (home / "corpora/link.txt").symlink_to(home / "service/session_key")
    with pytest.raises(UserError, match="lies outside"):
        check_again("shard", words, grant)
    (home / "runs/theirs").mkdir()
    (home / "corpora/link.txt").unlink()
    (home / "corpora/link.txt").symlink_to(home / "runs/theirs")  # where jobs may read, and not what was planned
    with pytest.raises(UserError, match="leads elsewhere than when the job was planned"):
        check_again("shard", words, grant)


def test_a_folder_that_became_a_link_is_refused(home: Path) -> None:
    words = ["corpus=everyday", "corpus.pairs=10"]
    grant = grant_of(home, make_plan("shard", words, [home], 0.0))
    (home / "shards/theirs").mkdir()
    (home / "shards/everyday-en-de-bpe").symlink_to("theirs")
    with pytest.raises(UserError, match="leads elsewhere than when the job was planned"):
        check_again("shard", words, grant)


def test_more_files_of_a_pattern_are_what_was_planned(home: Path) -> None:
    words = [*TEXT, f"corpus.train.file={home}/corpora/*.txt"]
    grant = grant_of(home, make_plan("shard", words, [home], 0.0))
    (home / "corpora/more.txt").write_text("another\n")
    check_again("shard", words, grant)


def test_the_tokens_file_is_named_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray_token").write_text("secret\n")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for needed, token in ((False, None), (True, "secret"), (False, None)):
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "ray_token"))
        keep_token(needed)
        assert os.environ.get("RAY_AUTH_TOKEN") == token
        assert "RAY_AUTH_TOKEN_PATH" not in os.environ


def run(
    home: Path, verb: str, words: list[str], grant: dict[str, Any], folder: Path
) -> "subprocess.CompletedProcess[str]":
    """The job's process as the runner starts it."""
    folder.mkdir(exist_ok=True)
    user = home.parent / "user"
    user.mkdir(exist_ok=True)
    variables = {VARIABLE: json.dumps(grant), "TMPDIR": str(folder), "HOME": str(user)}
    return subprocess.run(
        [sys.executable, "-m", "dragoman.services.jobs.confined", verb, *words],
        env={**os.environ, **variables, "DRAGOMAN_CACHE": str(user / "cache")},
        **{"capture_output": True, "text": True, "cwd": Path(__file__).resolve().parents[3]},
    )


@pytest.mark.long
def test_an_honest_job_does_its_work_and_an_attack_gets_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "user/cache"))
    words = [*TEXT, f"corpus.train.file={home}/corpora/*.txt"]
    done = run(home, "shard", words, granted(home, make_plan("shard", words, [home], 0.0)), tmp_path / "one")
    assert done.returncode == 0, done.stderr
    assert [path.name.partition("-")[0] for path in (home / "runs").iterdir()] == ["shard"]  # and no spare folder
    words = [f"paths.shards={home}/shards/text-en-characters", "unpack.records=2"]
    grant = granted(home, make_plan("unpack", words, [home], 0.0))
    done = run(home, "unpack", words, grant, tmp_path / "two")
    assert (done.returncode, done.stdout) == (0, "a line of a book\n" * 2), done.stderr
    # a job whose plan was another: the words are looked at once more
    stolen = [*TEXT, f"corpus.train.file=[{home}/service/session_key]"]
    done = run(home, "shard", stolen, grant, tmp_path / "three")
    assert (done.returncode, done.stdout) == (2, "")
    assert "lies outside" in done.stderr and "the secret" not in done.stderr
