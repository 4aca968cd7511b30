"""deploy/backup.sh, and the restore as docs/backup.md prints it, with sqlite and PostgreSQL."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.options import this_user
from tests.services.jobs.conftest import Postgres, new_database, postgres, program
from tests.services.jobs.team import COMMAND, environment, serving, wait

__all__ = ["postgres"]  # a fixture
REPOSITORY = Path(__file__).resolve().parents[1]
SMALL = (
    *("experiment=demo", "corpus.pairs=400", "tokenizer=characters", "cluster.backend=local", "cluster.workers=1"),
    *("model.width=16", "model.heads=2", "model.feed_forward=16", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("train.max_steps=4", "train.checkpoint_every=2", "train.evaluate_every=4", "evaluate.sentences=8"),
)
PROMOTED = (*SMALL[:3], "evaluate.sentences=8", "promote.force=true", "promote.reason=it is none")
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


def restore_dump(folder: Path, source: str, target: str) -> None:
    dump = folder / "databases" / f"{urlsplit(source).path[1:]}.dump"
    sh(f"{program('pg_restore')} --no-owner --dbname='{target}' {dump}")


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
    source, target, other = (new_database(postgres) for _ in range(3))
    database = Database(source)
    job = Ledger(database).submit("anna", "train", ["name=first"])
    with pytest.raises(AssertionError, match="two are called"):
        back_up(home, tmp_path / "copy", databases=f"{source} {source}")
    back_up(home, tmp_path / "copy", databases=f"{source} {other}")
    database.close()
    restore_dump(tmp_path / "copy", source, target)
    restored = Database(target)
    assert [row.id for row in Ledger(restored).jobs()] == [job.id]
    restored.close()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_service_starts_on_the_restored_home(
    home: Path, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Its jobs and logs, runs of MLflow, the model that the endpoint serves, and its keys."""
    databases = [""] * 2
    if kind == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        databases = [new_database(server) for _ in databases]

    def settings(database: str) -> list[str]:
        own = [f"service.ledger={database}", f"serve.database={database}"] if database else []
        return ["service.port=0", "service.ports=0", "service.cpus=1", "serve.threads=1", "serve.poll=1", *own]

    with serving(home, *settings(databases[0])) as address, JobClient(address, owner=this_user()) as client:
        for verb, words in (("shard", SMALL), ("train", SMALL), ("promote", PROMOTED)):
            job = client.submit(verb, words)["id"]
            for _ in client.follow(job):
                pass
            assert client.job(job)["state"] == "succeeded", b"".join(client.log(job)).decode()
        added = [*COMMAND, "keys", "add", "anna", *([f"keys.database={databases[0]}"] if databases[0] else [])]
        key = subprocess.run(added, env=environment(home), capture_output=True, text=True, check=True).stdout.strip()
        before = answers(home, key)
        back_up(home, tmp_path / "copy", databases=databases[0])
    restore(tmp_path / "copy", tmp_path / "other")
    shutil.move(home, tmp_path / "gone")
    if databases[1]:
        restore_dump(tmp_path / "copy", *databases)
    with serving(tmp_path / "other", *settings(databases[1])) as address, JobClient(address) as client:
        assert client.job(job)["state"] == "succeeded" and b"".join(client.log(job))
        assert answers(tmp_path / "other", key) == before


def answers(home: Path, key: str) -> list[object]:
    """Returns what the home's endpoint and MLflow say: a translation with its model, and the names of runs."""
    addresses = json.loads((home / "service" / "address.json").read_text())

    def ask(secret: str) -> httpx.Response:
        asked = {"q": "a dog", "source": "en", "target": "de", "api_key": secret}
        return http.post(f"{addresses['endpoint']}/translate", json=asked)

    with httpx.Client(timeout=60) as http:
        wait(lambda: ask(key).is_success, lambda: ask(key).text)
        wait(lambda: ask("unknown").status_code == 403, lambda: ask("unknown").text)  # keys are read every few seconds
        translated = ask(key)
        runs = http.post(f"{addresses['mlflow']}/api/2.0/mlflow/runs/search", json={"experiment_ids": ["1"]})
        names = [run["info"]["run_name"] for run in runs.json()["runs"]]
    return [translated.json(), translated.headers["X-Model-Version"], names]
