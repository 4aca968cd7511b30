"""Runs and shards belong to whoever made them first: what others, admins, and owners without a job may do with them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import MANIFEST
from dragoman.pipelines.places import find_places
from dragoman.pipelines.shard import samples_of
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.places import Places
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.verdict import Verdict
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    ledger = Ledger(Database(url), lambda: 1000.0)
    yield ledger
    ledger.database.close()


def place(path: Path, use: str = "read") -> dict[str, str]:
    return {"key": "paths.shards", "value": str(path), "path": str(path), "use": use}


def planned(ledger: Ledger, owner: str, path: Path, state: State = State.WAITING) -> Any:
    """A job of an owner that is to write a folder."""
    job = ledger.submit(owner, "shard", [])
    with ledger.database.write() as session:
        job = ledger.move(session, job, State.PLANNED, "planner", "planned")
        Places(ledger).claim(session, job, [place(path, "write")])
        job = ledger.move(session, job, State.WAITING, "planner", "waits")
        if state != State.WAITING:
            ledger.move(session, job, state, "test", "ends")
    return job


def test_a_folder_belongs_to_the_owner_of_its_job(ledger: Ledger, tmp_path: Path) -> None:
    places, mine = Places(ledger), tmp_path / "shards/mine"
    planned(ledger, "anna", mine)
    assert places.check("anna", [place(mine)]) == {"read": [], "write": [str(mine)], "record": []}
    for path in (mine, mine / "inside", mine.parent):
        for use in ("read", "start", "write"):
            with pytest.raises(UserError, match="belongs to another owner"):
                places.check("bert", [place(path, use)])
        with pytest.raises(UserError, match="holds runs of other owners"):
            places.check("bert", [place(path, "all")])
    for name in ("mine-too", "min", "mine0", "other"):
        places.check("bert", [place(tmp_path / "shards" / name)])


@pytest.mark.parametrize("corpus", ["everyday", "phrasebook", "webdataset"])
def test_a_sharding_may_write_the_lines_that_its_corpus_becomes(corpus: str) -> None:
    values = compose.values([f"corpus={corpus}"])
    shards = Path(values["paths"]["shards"]).absolute()
    written = {Path(one.path) for one in find_places("shard", values) if one.use == "write"}
    assert {shards, samples_of(shards)} <= written


def test_a_failed_job_that_left_nothing_frees_the_name(ledger: Ledger, tmp_path: Path) -> None:
    places, path = Places(ledger), tmp_path / "shards"
    planned(ledger, "anna", path, State.STOPPED)
    places.check("bert", [place(path, "write")])
    path.mkdir()
    with pytest.raises(UserError, match="another owner"):
        places.check("bert", [place(path, "write")])


def test_it_stays_with_the_owner_when_the_job_is_removed(ledger: Ledger, tmp_path: Path) -> None:
    places, path = Places(ledger), tmp_path / "shards"
    path.mkdir()
    job = planned(ledger, "anna", path, State.STOPPED)
    ledger.remove(ledger.job(job.id), "anna")
    with pytest.raises(UserError, match="another owner"):
        places.check("bert", [place(path)])


def test_what_no_job_made_is_read_by_all_and_changed_by_admins(ledger: Ledger, tmp_path: Path) -> None:
    places, access, path = Places(ledger), Access(ledger), tmp_path / "shards"
    path.mkdir()
    (path / "manifest.json").write_text("{}")
    places.check("bert", [place(path, "write")])  # a service that asks nobody for a token
    access.issue("one", "root", "admin", "up")
    access.issue("two", "bert", "submitter", "up")
    assert places.check("bert", [place(path)])["read"] == [str(path)]
    assert places.check("root", [place(path, "write")], admin=True)["write"] == [str(path)]
    with pytest.raises(UserError, match="was made by no job"):
        places.check("bert", [place(path, "write")])


def test_an_admin_reads_everything_and_overwrites_nobodys(ledger: Ledger, tmp_path: Path) -> None:
    places, path = Places(ledger), tmp_path / "run"
    Access(ledger).issue("one", "root", "admin", "up")
    planned(ledger, "anna", path)
    assert places.check("root", [place(path)], admin=True)["read"] == [str(path)]
    with pytest.raises(UserError, match="another owner"):
        places.check("root", [place(path, "write")], admin=True)
    with pytest.raises(UserError, match="another owner"):  # by another token of theirs, of the role submitter
        places.check("root", [place(path)])


def test_a_run_that_does_not_exist_yet_is_looked_at_when_the_job_starts(ledger: Ledger, tmp_path: Path) -> None:
    places, path = Places(ledger), tmp_path / "run"
    assert places.check("bert", [place(path, "maybe")])["read"] == []
    planned(ledger, "anna", path)
    path.mkdir()
    with pytest.raises(UserError, match="another owner"):
        places.check("bert", [place(path, "maybe")])


def test_the_record_of_a_sharding_belongs_to_who_made_the_shards_first(loop: Loop, tmp_path: Path) -> None:
    places, runs = loop.intake.places, tmp_path / "runs"
    manifest = tmp_path / "shards" / "mine" / MANIFEST
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    record = runs / f"shard-text-{hashlib.sha256(b'{}').hexdigest()[:12]}"
    record.mkdir(parents=True)
    for owner in ("anna", "bert"):  # both make the same shards
        job = loop.ledger.submit(owner, "shard", [])
        plan = {"run_dir": str(runs / "shard"), "places": [place(runs, "record")]}
        run = f"shards {manifest.parent}"
        bring(loop.ledger, job, State.RUNNING, plan=plan, choices=[1], run=run)
        (job,) = loop.ledger.jobs([State.RUNNING], plans=True)
        loop.accounts.close(job, Verdict(State.SUCCEEDED, "succeeded", "end", "succeeded"), 0)
    assert places.check("anna", [place(runs, "record")])["write"] == [str(record)]
    assert places.check("bert", [place(runs, "record")]) == {"read": [], "write": [], "record": [str(runs)]}
    for path in (record, record / "spool" / "records.jsonl", runs):
        with pytest.raises(UserError, match="another owner"):
            places.check("bert", [place(path)])


def test_records_that_no_job_made_are_gone_on_with_where_nobody_needs_a_token(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "shard-text-0").mkdir()
    (tmp_path / "shard-text-1").symlink_to("/etc")
    places, access = Places(ledger), Access(ledger)
    assert places.check("anna", [place(tmp_path, "record")])["write"] == [str(tmp_path / "shard-text-0")]
    access.issue("one", "root", "admin", "up")
    assert places.check("anna", [place(tmp_path, "record")])["write"] == []
