"""A ledger as the release before left it, in today's service: jobs, tokens and the audit trail are there."""

import contextlib
import itertools
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event

from dragoman.model.ranges import check_ranges
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.places import Models, Places
from dragoman.services.jobs.service.notifier import Notifier
from dragoman.services.jobs.service.schedules import Schedules
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import State
from dragoman.services.store.database import Database as Store
from tests.services.jobs.conftest import postgres, url

__all__ = ["postgres", "url"]  # fixtures
TABLES = Path(__file__).parent / "tables"
TOKEN = "dgm_the_admins_token_of_the_release_before"


def fill(url: str) -> str:
    """Fills an empty database with what version 0.2.0 has written; returns the prefix of its jobs."""
    name = "sqlite" if url.startswith("sqlite") else "postgresql"
    script = (TABLES / f"0.2.0-{name}.sql").read_text(encoding="utf-8").partition("\n\n")[2]
    if name == "sqlite":
        database = sqlite3.connect(url.removeprefix("sqlite:///"))
        database.executescript(script)
        (prefix,) = database.execute("SELECT value FROM meta").fetchone()
        database.close()
        return str(prefix)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    connection = engine.raw_connection()
    with connection.cursor() as cursor:  # type: ignore[attr-defined]  # psycopg's
        cursor.execute(script)
        cursor.execute("SELECT value FROM public.meta")
        (prefix,) = cursor.fetchone()
    connection.commit()
    connection.close()
    engine.dispose()
    return str(prefix)


def look_at(database: Database, prefix: str) -> None:
    ledger = Ledger(database)
    assert database.prefix == prefix
    first, second, third, fourth = ledger.jobs(ascending=True, plans=True)
    assert [job.state for job in (first, second, third, fourth)] == [
        *(State.SUCCEEDED, State.RUNNING, State.WAITING, State.SUBMITTED)
    ]
    assert (first.id, first.run, first.model, first.owner) == (f"{prefix}-1", "run a", "phrasebook-en-de", "anna")
    assert first.plan is not None and first.plan["steps"] == 100
    assert (second.priority, second.key, second.attempt) == (10, "key-b", 1)
    assert fourth.after == [third.id] and fourth.tags == [] == fourth.notify
    (attempt,) = ledger.attempts(first.id)
    assert (attempt.outcome, attempt.cause, attempt.code) == ("succeeded", "end", 0)
    trail = [(one.job, one.after) for one in ledger.changes() if one.action == "state"]
    assert trail[:2] == [(first.id, "submitted"), (first.id, "planned")] and len(trail) == 15
    access = Access(ledger)
    person = access.person(TOKEN)
    assert person is not None and person.may("admin")
    assert {one.name for one in access.tokens()} == {"file:admin", "anna"}
    assert access.quotas() == {"anna": (8.0, None, None)}
    assert Models(ledger).owner("phrasebook-en-de") == "anna"
    place = {"path": "/srv/home/runs/a", "use": "write", "key": "name", "value": "a"}
    assert Places(ledger).check("anna", [place])["write"] == [place["path"]]


def test_everything_of_version_0_2_0_is_there_and_goes_on(url: str) -> None:
    prefix = fill(url)
    database = Database(url)
    look_at(database, prefix)
    ledger = Ledger(database)
    assert ledger.submit("anna", "train", ["name=a"], key="key-a").id == f"{prefix}-1"  # asked again: the same job
    assert ledger.submit("anna", "doctor", [], tags=["new"]).id == f"{prefix}-5"
    running = ledger.job(f"{prefix}-2")
    ledger.end(running, State.WAITING, "yielded", "shutdown", "made room")
    config = ServiceConfig()
    check_ranges("service", config)
    Notifier(ledger, config.notify, "http://here").look()  # what came since works with its rows
    assert Schedules(ledger, config).all() == []
    database.close()
    Database(url).close()  # a second start finds nothing to do


def test_what_a_ledger_between_two_versions_lacks_is_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    Database(url).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.executescript(
            "DROP TABLE audit; DROP INDEX uq_notices_job; ALTER TABLE notices DROP COLUMN spell;"
            "CREATE UNIQUE INDEX uq_notices_job ON notices (job, attempt, event, target);"
            "CREATE INDEX ix_jobs_state_seq ON jobs (state, seq); UPDATE alembic_version SET version_num = '0013'"
        )
    Database(url).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert {"audit", "audit_refuse_update", "ix_audit_at"} <= made and "ix_jobs_state_seq" not in made
        assert "spell" in [row[2] for row in connection.execute("PRAGMA index_info(uq_notices_job)")]


@pytest.mark.long
@pytest.mark.parametrize(("room", "opened"), [("jobs", Database), ("endpoint", lambda url: KeyStore(url).open())])
def test_an_upgrade_that_is_killed_before_any_statement_is_begun_again(
    room: str, opened: Callable[[str], Store], tmp_path: Path
) -> None:
    script = (TABLES.parents[1] / room / "tables" / "0.2.0-sqlite.sql").read_text(encoding="utf-8").partition("\n\n")[2]
    results: set[str] = set()
    for statements in itertools.count():
        path = tmp_path / f"{statements}.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
        if (child := os.fork()) == 0:
            numbers = itertools.count()

            def kill(*_: object, numbers: Iterator[int] = numbers, last: int = statements) -> None:
                if next(numbers) == last:
                    os.kill(os.getpid(), signal.SIGKILL)

            event.listen(Engine, "before_cursor_execute", kill)
            event.listen(Engine, "commit", kill)
            opened(f"sqlite:///{path}")
            os._exit(0)
        killed = os.waitpid(child, 0)[1] == signal.SIGKILL
        opened(f"sqlite:///{path}").close()  # the next start
        with contextlib.closing(sqlite3.connect(path)) as connection:
            results.add("\n".join(sorted(connection.iterdump())))
        path.unlink()
        if not killed:
            break
    assert statements > 10 and len(results) == 1
