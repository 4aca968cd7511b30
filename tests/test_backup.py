"""deploy/backup.sh, and the restore as docs/backup.md prints it, with sqlite and PostgreSQL."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from tests.services.jobs.conftest import Postgres, new_database, postgres, program
from tests.services.jobs.team import serving, wait

__all__ = ["postgres"]  # a fixture
REPOSITORY = Path(__file__).resolve().parents[1]
GUIDE = (REPOSITORY / "docs" / "backup.md").read_text(encoding="utf-8")


def sh(command: str, **variables: str) -> None:
    environment = {**os.environ, **variables}
    words = ["sh", "-c", command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stderr


def guided(heading: str, **replaced: str) -> str:
    """Returns the commands of the guide's first block after `heading`, without `dragoman up`."""
    block = re.search(r"```sh\n(.*?)```", GUIDE[GUIDE.index(heading) :], flags=re.DOTALL)
    assert block
    commands = "\n".join(line for line in block[1].splitlines() if "dragoman up" not in line)
    for name, value in replaced.items():
        commands = commands.replace(name.replace("_", "/"), value)
    return commands


@pytest.fixture
def home(tmp_path: Path) -> Path:
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed")
    home = tmp_path / "home"
    (home / "runs" / "first" / "checkpoints").mkdir(parents=True)
    (home / "runs" / "first" / "steps.jsonl").write_text('{"step": 1}\n')
    (home / "service").mkdir()
    return home


def back_up(home: Path, folder: Path, databases: str = "") -> None:
    sh(guided("# Backup", _mnt_backup=str(folder)), DRAGOMAN_HOME=str(home), DATABASES=databases)


def restore(folder: Path, home: Path) -> None:
    sh(guided("To restore", _mnt_backup=str(folder), _srv_dragoman=str(home)))


def test_a_home_is_copied_while_its_ledger_is_open_and_restored(home: Path, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{home}/service/ledger.db")
    job = Ledger(database).submit("anna", "train", ["name=first"])
    assert (home / "service" / "ledger.db-wal").stat().st_size > 0  # committed, and not in the file yet
    back_up(home, tmp_path / "copy")
    later = Ledger(database).submit("anna", "train", ["name=second"])
    database.close()
    restore(tmp_path / "copy", tmp_path / "other")
    assert (tmp_path / "other" / "runs" / "first" / "steps.jsonl").read_text() == '{"step": 1}\n'
    assert (tmp_path / "other" / "runs" / "first" / "checkpoints").is_dir()
    restored = Database(f"sqlite:///{tmp_path}/other/service/ledger.db")
    assert [row.id for row in Ledger(restored).jobs()] == [job.id] != [later.id]
    restored.close()
    assert (tmp_path / "copy" / "files.tar").stat().st_mode & 0o077 == 0


def test_a_second_backup_replaces_the_first(home: Path, tmp_path: Path) -> None:
    Database(f"sqlite:///{home}/service/gone.db").close()
    back_up(home, tmp_path / "copy")
    (home / "service" / "gone.db").unlink()
    (home / "runs" / "first" / "steps.jsonl").unlink()
    back_up(home, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "other")
    assert not [path for path in (tmp_path / "other").rglob("*") if path.is_file()]


def test_a_damaged_database_is_not_passed_over(home: Path, tmp_path: Path) -> None:
    (home / "service" / "ledger.db").write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(AssertionError, match=r"not a database|malformed"):
        back_up(home, tmp_path / "copy")
    assert not (tmp_path / "copy" / "files.tar").exists()


def test_a_ledger_on_postgresql_is_dumped_and_restored(home: Path, tmp_path: Path, postgres: Postgres) -> None:
    if program("pg_dump") is None or program("pg_restore") is None:
        pytest.skip("PostgreSQL's clients are not installed")
    source, target = new_database(postgres), new_database(postgres)
    database = Database(source)
    job = Ledger(database).submit("anna", "train", ["name=first"])
    back_up(home, tmp_path / "copy", databases=source)
    database.close()
    dump = tmp_path / "copy" / "databases" / f"{source.rpartition('/')[2].partition('?')[0]}.dump"
    sh(f"{program('pg_restore')} --no-owner --dbname='{target}' {dump}")
    restored = Database(target)
    assert [row.id for row in Ledger(restored).jobs()] == [job.id]
    restored.close()


@pytest.mark.long
def test_a_service_starts_on_the_restored_home(home: Path, tmp_path: Path) -> None:
    settings = ["service.port=0", "service.ports=0", "service.cpus=1", "service.endpoint=false"]
    with serving(home, *settings) as address, JobClient(address) as client:
        job = client.submit("doctor", [])["id"]
        wait(lambda: client.job(job)["state"] == "succeeded", lambda: str(client.job(job)))
        back_up(home, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "other")
    with serving(tmp_path / "other", *settings) as address, JobClient(address) as client:
        assert client.job(job)["state"] == "succeeded" and b"".join(client.log(job))
