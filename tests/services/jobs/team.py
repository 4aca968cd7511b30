"""`dragoman up` as a process, and the command lines of people, each with a folder and a token of their own."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "dragoman.services.cli"]
PATIENCE = 600.0  # seconds: a busy machine takes its time to start processes


def environment(home: Path, **more: str) -> dict[str, str]:
    """Returns the variables of a process on `home`, without those that name another service."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "MLFLOW_", "DRAGOMAN_"))}
    return {**kept, "DRAGOMAN_HOME": str(home), "PYTHONPATH": str(REPOSITORY), **more}


def wait(done: Callable[[], Any], why: Callable[[], str] = str) -> Any:
    """Returns what `done` returns, once it is true; fails with the text of `why` otherwise."""
    deadline = time.monotonic() + PATIENCE
    while not (found := done()):
        assert time.monotonic() < deadline, why()
        time.sleep(0.3)
    return found


def read(database: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Reads a sqlite database, while others write to it too."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        return opened.execute(query, values).fetchall()


def state(home: Path, job: str) -> str:
    """Returns a job's state as the ledger has it, for a fraction of what a command line costs."""
    ((found,),) = read(home / "service" / "ledger.db", "SELECT state FROM jobs WHERE id = ?", job)
    return str(found)


@contextlib.contextmanager
def serving(home: Path, *words: str) -> Iterator[str]:
    """Runs `dragoman up` on the home until the block ends; yields the service's address."""
    said = home.with_suffix(".said")
    with said.open("w") as file:
        up = subprocess.Popen(
            [*COMMAND, "up", *words], cwd=REPOSITORY, env=environment(home), stdout=file, stderr=subprocess.STDOUT
        )
    try:
        wait(lambda: "ready" in said.read_text() or up.poll() is not None, said.read_text)
        assert up.poll() is None, said.read_text()
        yield json.loads((home / "service" / "address.json").read_text())["jobs"]
    finally:
        up.send_signal(signal.SIGINT)
        code = up.wait(PATIENCE)
    assert code == 0, said.read_text()


@dataclass(frozen=True)
class User:
    """Somebody's command line. `folder` is its home; it has a token in the file `key`, if that is there."""

    folder: Path
    service: str

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def key(self) -> Path:
        return self.folder / "key"

    def receive(self, token: str) -> None:
        """Keeps a token."""
        self.folder.mkdir(exist_ok=True)
        self.key.write_text(token)
        self.key.chmod(0o600)

    def start(self, *words: str, **streams: Any) -> "subprocess.Popen[str]":
        """Begins a command that talks to the service."""
        self.folder.mkdir(exist_ok=True)
        more = {"DRAGOMAN_KEY_FILE": str(self.key)} if self.key.is_file() else {}
        return subprocess.Popen(
            [*COMMAND, words[0], f"jobs.service={self.service}", *words[1:]],
            **{"cwd": self.folder, "env": environment(self.folder, **more), "text": True, **streams},
        )

    def run(self, *words: str, code: int = 0) -> str:
        """Returns the output of a command that ends with this code."""
        process = self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, error = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, f"{self.name}: {words}: {process.returncode}\n{out}{error}"
        return str(out)

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """Returns the records of a command with --json."""
        return [json.loads(line) for line in self.run(*words, "--json").splitlines()]

    def submit(self, *words: str) -> str:
        """Returns the id of the submitted job."""
        (row,) = self.rows("submit", *words)
        return str(row["id"])
