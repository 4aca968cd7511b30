"""Backups and restores: complete or not at all, checked, while others write; folders, addresses, sqlite, PostgreSQL."""

import hashlib
import json
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.storage import remote
from dragoman.services import cli
from dragoman.services.backup import restoring
from dragoman.services.backup.copies import Copy, files_of
from dragoman.services.backup.making import make
from dragoman.services.backup.restoring import check, restore
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from tests.services.backup.home import config_of, contents, fill_ledger, make_home
from tests.services.jobs.conftest import Postgres, new_database, postgres

__all__ = ["postgres"]  # a fixture


def jobs_of(url: str) -> list[tuple[str, str, str]]:
    database = Database(url)
    ledger = Ledger(database)
    found = [(job.id, job.owner, job.state) for job in ledger.jobs(ascending=True)]
    assert [one.name for one in Access(ledger).tokens()] == ["root"]
    database.close()
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    make_home(home)
    return home


def turn_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def test_a_restored_home_has_what_the_backup_found(home: Path, tmp_path: Path) -> None:
    made = make(config_of(home), str(tmp_path / "archive"))
    assert made["databases"]["ledger"]["counts"] == {"jobs": 2, "tokens": 1, "schedules": 0}
    assert made["databases"]["endpoint"]["counts"]["api_keys"] == 1
    other = tmp_path / "other"
    restore(config_of(other), str(tmp_path / "archive"))
    wanted = contents(home)
    for name in ("service/address.json", "cache/models/big"):
        del wanted[name]
    assert contents(other) == wanted
    assert jobs_of(f"sqlite:///{other}/service/ledger.db") == jobs_of(f"sqlite:///{home}/service/ledger.db")
    assert (other / "runs/a/run.json").stat().st_mtime_ns == (home / "runs/a/run.json").stat().st_mtime_ns
    modes = {stat.S_IMODE(path.stat().st_mode) for top in (other, tmp_path / "archive") for path in top.rglob("*")}
    assert modes == {0o600, 0o700}
    assert not list(other.glob(".part-*")) and not list((tmp_path / "archive").glob(".part-*"))


def test_paths_of_the_old_home_become_those_of_the_new_one(home: Path, tmp_path: Path) -> None:
    make(config_of(home), str(tmp_path / "archive"))
    other = tmp_path / "other"
    restore(config_of(other), str(tmp_path / "archive"))
    database = Database(f"sqlite:///{other}/service/ledger.db")
    plan = Ledger(database).jobs(plans=True)[1].plan
    database.close()
    assert plan == {"run_dir": f"{other}/runs/a", "places": [{"path": f"{other}/runs/a", "use": "write"}]}
    mlflow = sqlite3.connect(other / "mlflow" / "mlflow.db")
    assert mlflow.execute("SELECT artifact_uri FROM runs").fetchall() == [(f"{other}/mlflow/artifacts/1",)]
    mlflow.close()


def test_the_next_backup_writes_what_is_new_and_what_is_gone_goes(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    make(config_of(home), str(place))
    (home / "runs" / "a" / "new").write_text("more")
    (home / "shards" / "s" / "manifest.json").unlink()
    (home / "jobs" / "j1" / "a1.log").unlink()
    (home / "jobs" / "j1" / "a1.log").mkdir()  # a folder in the place of a file
    (home / "jobs" / "j1" / "a1.log" / "x").write_text("said again")
    second = make(config_of(home), str(place))
    assert sorted(second["new"]) == [4, 10] and second["damaged"] == []
    assert not (place / "home" / "shards").exists()
    assert (place / "home" / "runs" / "a" / "new").read_text() == "more"  # a plain copy
    assert check(config_of(home), str(place))["name"] == second["name"]


@pytest.mark.parametrize("touched", [False, True])
def test_a_damaged_copy_is_written_again_and_told(home: Path, tmp_path: Path, touched: bool) -> None:
    place = tmp_path / "backup"
    make(config_of(home), str(place))
    turn_bit(place / "home" / "runs" / "a" / "steps.jsonl")
    if touched:
        (home / "runs" / "a" / "steps.jsonl").touch()
    again = make(config_of(home), str(place))
    assert again["damaged"] == ["home/runs/a/steps.jsonl"] and len(again["new"]) == 1
    check(config_of(home), str(place))


def test_a_backup_is_made_in_an_empty_folder_or_a_backup_alone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_HOME", str(home))
    mine = tmp_path / "project"
    mine.mkdir()
    for name in ("mine.txt", "manifest.json", "backup.json"):
        (mine / name).write_text("{}")
    before = contents(mine)
    with pytest.raises(UserError, match=r"holds manifest\.json; name an empty folder, or a backup"):
        make(config_of(home), str(mine))
    assert contents(mine) == before
    for word in ("list", "check"):
        assert cli.main(["backup", word]) == 2
        assert f"'{word}' is no place" in capsys.readouterr().err
        assert not Path(word).exists()


def test_an_archive_of_before_is_restored_and_not_written(home: Path, tmp_path: Path) -> None:
    """Two backups that share their objects, as earlier versions wrote them."""
    archive, other = tmp_path / "archive", tmp_path / "other"
    made = make(config_of(home), str(tmp_path / "backup"))
    manifest = {**made, "format_version": 1, "name": "20261101T000000-abcd"}
    for one in files_of(made):
        target = archive / "objects" / one.entry["sha256"][:2] / one.entry["sha256"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tmp_path / "backup" / one.name, target)
    content = json.dumps(manifest).encode()
    (archive / "backups").mkdir()
    (archive / "backups" / f"{manifest['name']}.json").write_bytes(content)
    entry = {"name": manifest["name"], "sha256": hashlib.sha256(content).hexdigest()}
    (archive / "index.json").write_text(json.dumps({"format_version": 1, "backups": [entry]}))
    with pytest.raises(UserError, match="backups of an earlier version, which dragoman restore reads"):
        make(config_of(home), str(archive))
    with pytest.raises(UserError, match="has no backup nope; it has 20261101T000000-abcd"):
        restore(config_of(other), str(archive), "nope")
    check(config_of(other), str(archive), manifest["name"])
    restore(config_of(other), str(archive))
    assert contents(other)["runs/a/run.json"] == b"{}"


def test_what_is_committed_while_the_backup_runs_is_whole(home: Path, tmp_path: Path) -> None:
    """Jobs are entered and a log grows: the copy is a ledger of one moment, and the log a beginning of the log."""
    database = Database(f"sqlite:///{home}/service/ledger.db")
    ledger, ending, log = Ledger(database), threading.Event(), home / "jobs" / "j1" / "a1.log"

    def write() -> None:
        while not ending.is_set():
            ledger.submit("cleo", "doctor", [])
            with log.open("a") as file:
                file.write("x" * 1000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            make(config_of(home), str(tmp_path / "archive"))
            restore(config_of(tmp_path / f"other{number}"), str(tmp_path / "archive"))
    finally:
        ending.set()
        writer.join()
    for number in range(3):
        copy = sqlite3.connect(tmp_path / f"other{number}" / "service" / "ledger.db")
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        jobs, changes = (copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("jobs", "changes"))
        assert changes == jobs + 2  # an entry each; one was planned, a token was issued
        copy.close()
        assert log.read_bytes().startswith((tmp_path / f"other{number}" / "jobs" / "j1" / "a1.log").read_bytes())
    database.close()


@pytest.mark.parametrize("damage", [turn_bit, Path.unlink])
def test_a_damaged_backup_is_named_and_restores_nothing(
    home: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    archive, other = tmp_path / "archive", tmp_path / "other"
    make(config_of(home), str(archive))
    damage(archive / "home" / "runs" / "a" / "steps.jsonl")
    for task in (check, restore):
        with pytest.raises(UserError, match=r"is damaged; missing or changed: runs/a/steps\.jsonl\. "):
            task(config_of(other), str(archive))
    assert not list(other.glob("*"))


def test_a_damaged_manifest_is_named_and_the_next_backup_is_whole(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    make(config_of(home), str(place))
    (place / "backup.json").write_bytes((place / "backup.json").read_bytes()[:100])
    with pytest.raises(UserError, match=r"backup\.json: is damaged; make the backup again"):
        restore(config_of(tmp_path / "other"), str(place))
    make(config_of(home), str(place))
    restore(config_of(tmp_path / "other"), str(place))


def test_an_interrupted_backup_is_not_taken_for_one(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "backup")
    make(config_of(home), place)
    (home / "runs" / "a" / "run.json").write_text("changed")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Copy, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        make(config_of(home), place)
    for task in (check, restore):
        with pytest.raises(UserError, match="the last backup there did not end; make it again"):
            task(config_of(tmp_path / "other"), place)
    assert make(config_of(home), place)["new"] == []  # its files serve the next


def test_only_an_empty_home_is_filled(home: Path, tmp_path: Path) -> None:
    archive, other = str(tmp_path / "archive"), tmp_path / "other"
    make(config_of(home), archive)
    other.mkdir()
    (other / "runs").mkdir()
    with pytest.raises(UserError, match=r"is not empty \(runs\)"):
        restore(config_of(other), archive)
    ledger = tmp_path / "elsewhere.db"
    ledger.write_bytes(b"mine")
    with pytest.raises(UserError, match=r"backup\.ledger: .*elsewhere\.db exists"):
        restore(config_of(tmp_path / "third", ledger=f"sqlite:///{ledger}"), archive)
    assert ledger.read_bytes() == b"mine" and not (tmp_path / "third").exists()


def test_a_backup_of_a_newer_version_is_refused(home: Path, tmp_path: Path) -> None:
    archive = str(tmp_path / "archive")
    ledger = sqlite3.connect(home / "service" / "ledger.db")
    with ledger:
        ledger.execute("UPDATE alembic_version SET version_num = '9999'")
    ledger.close()
    make(config_of(home), archive)
    with pytest.raises(UserError, match=r"ledger: the backup was made by Dragoman .*9999.*newer than this program's"):
        restore(config_of(tmp_path / "other"), archive)
    assert not (tmp_path / "other").exists()


def test_a_damaged_ledger_is_not_taken_for_a_backup(home: Path, tmp_path: Path) -> None:
    with (home / "service" / "ledger.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 60_000)
    with pytest.raises(ServiceError, match=r"ledger\.db"):
        make(config_of(home), str(tmp_path / "archive"))
    with pytest.raises(UserError, match="holds no backup"):
        check(config_of(home), str(tmp_path / "archive"))


def test_an_archive_at_an_address_and_the_objects_of_a_bucket(home: Path, tmp_path: Path) -> None:
    bucket, archive = f"memory://artifacts-{tmp_path.name}/mlflow", f"memory://backups-{tmp_path.name}/one"
    remote.write(f"{bucket}/1/model", b"weights")
    remote.write(f"{bucket}/2/model", b"more weights")
    made = make(config_of(home, buckets=[bucket]), archive)
    assert [one["path"] for one in made["buckets"][bucket]] == ["1/model", "2/model"]
    with pytest.raises(UserError, match=r"holds 1/model; a restore wants it empty"):
        restore(config_of(tmp_path / "other"), archive)
    for name in remote.names(bucket):
        remote.delete(f"{bucket}/{name}")
    restore(config_of(tmp_path / "other"), archive)
    kept = {name: remote.read(f"{bucket}/{name}") for name in remote.names(bucket)}
    assert kept == {"1/model": b"weights", "2/model": b"more weights"}
    assert contents(tmp_path / "other")["runs/a/run.json"] == b"{}"


def test_a_ledger_on_postgresql_comes_back_on_postgresql_and_on_sqlite(tmp_path: Path, postgres: Postgres) -> None:
    home, archive, url = tmp_path / "home", str(tmp_path / "archive"), new_database(postgres)
    make_home(home)
    (home / "service" / "ledger.db").unlink()
    names = fill_ledger(url, home)
    wanted = jobs_of(url)
    made = make(config_of(home, ledger=url), archive)
    assert made["databases"]["ledger"]["counts"]["jobs"] == 2
    again, file = new_database(postgres), f"sqlite:///{tmp_path}/third/service/ledger.db"
    restore(config_of(tmp_path / "other", ledger=again), archive)
    restore(config_of(tmp_path / "third", ledger=file), archive)
    for restored in (again, file):
        assert jobs_of(restored) == wanted
        database = Database(restored)
        ledger = Ledger(database)
        assert ledger.job(names[0]).tags == ["x"]
        assert ledger.submit("anna", "doctor", []).id == f"{database.prefix}-3"  # numbers go on
        with database.read() as session:
            untold = session.scalar(text("SELECT count(*) FROM jobs WHERE plan IS NULL"))
        assert untold == 2
        database.close()
    with pytest.raises(UserError, match="the database has tables"):
        restore(config_of(tmp_path / "fourth", ledger=again), archive)


def test_the_commands_say_what_they_did_and_what_to_say(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = str(tmp_path / "archive")
    monkeypatch.setenv("DRAGOMAN_HOME", str(home))
    assert cli.main(["backup", archive]) == 0
    assert "ledger 2 jobs, 1 tokens" in capsys.readouterr().out
    assert cli.main(["backup", archive, "check", "--json"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["tables"]["ledger"]["jobs"] == 2 and row["home"] == str(home)
    assert cli.main(["backup", archive, "check"]) == 0
    assert capsys.readouterr().out.startswith("sound: ")
    assert cli.main(["restore", archive]) == 2
    assert "is not empty" in capsys.readouterr().err
    other = tmp_path / "other"
    assert cli.main(["restore", archive, f"paths.root={other}"]) == 0
    assert contents(other)["service/ray_token"] == b"secret"
    capsys.readouterr()
    for words, said in (
        (["backup"], "say where"),
        (["backup", archive, "chek"], "check"),
        (["backup", str(home / "inside")], "lies in the home"),
        (["backup", "https://example.org/x"], "can be read only"),
        (["restore", str(tmp_path / "nothing"), f"paths.root={tmp_path}/x"], "holds no backup"),
        (["restore", archive, "nope", f"paths.root={tmp_path}/x"], "is one backup and has no nope"),
    ):
        assert cli.main(words) == 2, words
        assert said in capsys.readouterr().err
    assert not (home / "inside").exists() and not (tmp_path / "nothing").exists()


def test_a_restore_that_was_killed_is_named_and_no_service_starts_on_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, target = str(tmp_path / "backup"), tmp_path / "target"
    make(config_of(home), place)
    moved: list[str] = []

    def rename(path: Path, to: Path) -> None:
        moved.append(path.name)
        if len(moved) == 2:
            raise KeyboardInterrupt
        shutil.move(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(restoring.shutil, "rmtree", lambda *_, **__: None)  # a kill cleans nothing up
        patch.setattr(Path, "rename", rename)
        with pytest.raises(KeyboardInterrupt):
            restore(config_of(target), place)
    assert "service" not in moved, "it comes last"
    with pytest.raises(UserError, match="a restore was interrupted here"):
        restore(config_of(target), place)
    assert cli.main(["up", f"paths.root={target}", "service.port=0"]) == 2
    assert "a restore was interrupted here" in capsys.readouterr().err
