"""MLflow's first start is killed at each state of its files; the next start makes databases that are whole."""

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from dragoman.model.files import secret_file
from dragoman.model.mlflow_client import make_database, make_tables
from dragoman.services.jobs.up.mlflow import make_login_tables

MOMENTS = 30


def names(path: Path) -> set[str]:
    with sqlite3.connect(path) as database:
        return {name for (name,) in database.execute("select name from sqlite_master")}


def fill_in_steps(address: str, steps: int = 5) -> None:
    """Makes a table a step, each committed on its own, as MLflow's migrations do; ends early after `steps`."""
    path = address.removeprefix("sqlite:///")
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("pragma journal_mode=wal")
    for number in range(min(steps, 5)):
        database.execute(f"create table t{number} (x)")
    if steps < 5:
        raise KeyboardInterrupt  # the connection stays open, its journal too
    database.close()


@pytest.mark.parametrize("steps", range(5))
def test_a_half_made_database_is_made_anew_without_its_old_journal(tmp_path: Path, steps: int) -> None:
    path = tmp_path / "new" / "mlflow.db"
    with pytest.raises(KeyboardInterrupt):
        make_database(path, lambda address: fill_in_steps(address, steps))
    assert not path.exists()
    make_database(path, fill_in_steps)
    assert names(path) == {f"t{number}" for number in range(5)}
    assert not list(path.parent.glob("*.part*"))
    make_database(path, lambda address: pytest.fail("it is there"))


def test_a_secret_that_a_killed_process_left_empty_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "service" / "session_key"
    path.parent.mkdir()
    path.touch(0o600)  # between its making and its writing
    assert secret_file(path, "first") == "first"
    assert secret_file(path, "second") == "first"
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.long
@pytest.mark.parametrize("fill", [make_tables, make_login_tables])
def test_mlflows_databases_are_whole_after_a_start_that_was_killed_at_any_state(
    tmp_path: Path, fill: Callable[[str], None]
) -> None:
    make_database(tmp_path / "whole" / "mlflow.db", fill)  # loads MLflow, once for all processes
    whole = names(tmp_path / "whole" / "mlflow.db")
    states = snapshots(tmp_path, fill)
    assert len(states) >= 10
    for state in states:  # what `kill -9` leaves at this moment
        path = state / "mlflow.db"
        pid = os.fork()
        if not pid:
            make_database(path, fill)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert names(path) == whole, state


def snapshots(tmp_path: Path, fill: Callable[[str], None]) -> list[Path]:
    """Returns copies of a start's folder at up to MOMENTS of its different states, taken while it stands still."""
    first, found, seen = tmp_path / "first", list[Path](), set[tuple[tuple[str, int], ...]]()
    first.mkdir()
    pid = os.fork()
    if not pid:
        make_database(first / "mlflow.db", fill)
        os._exit(0)
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for one in family:
            os.kill(one.pid, signal.SIGSTOP)
        state = tuple(sorted((one.name, one.stat().st_size) for one in first.iterdir()))
        if state not in seen and len(found) < MOMENTS:
            seen.add(state)
            found.append(Path(shutil.copytree(first, tmp_path / f"state{len(found)}")))
        for one in family:
            os.kill(one.pid, signal.SIGCONT)
        time.sleep(0.005)
    return found
