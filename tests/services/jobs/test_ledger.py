"""The ledger on both databases: compare-and-set, a record of changes that cannot be altered, tokens nobody can read."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger import statements
from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.database import Base, Change, Database, Job, Token
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger, TooManyError, UnknownJobError
from dragoman.services.jobs.states import MOVES, State
from dragoman.services.store.database import Turns
from tests.services.jobs.processes import bring


def waiting(ledger: Ledger, **values: Any) -> Job:
    return bring(ledger, ledger.submit("anna", "train", ["name=a"], **values), State.WAITING)


def test_migrations_make_the_tables_that_the_models_describe(ledger: Ledger) -> None:
    with ledger.database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_an_owner_enters_no_more_than_he_may_however_quick_he_is(ledger: Ledger) -> None:
    gate, refused = threading.Barrier(6), []

    def enter() -> None:
        gate.wait()
        try:
            ledger.submit("anna", "train", [], most=2)
        except TooManyError:
            refused.append(1)

    threads = [threading.Thread(target=enter) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if ledger.database.is_sqlite:  # PostgreSQL counts what was committed before
        assert len(refused) == 4
    with pytest.raises(TooManyError):
        ledger.submit("anna", "train", [], most=2)
    ledger.submit("ben", "train", [], most=2)


def test_who_waits_for_changes_hears_of_each_commit(ledger: Ledger) -> None:
    for act in (
        lambda: ledger.submit("anna", "train", []),
        lambda: Access(ledger).issue("a", "anna", "admin", "anna"),
        lambda: ledger.change(ledger.jobs()[0], State.STOPPED, "anna", ""),
        lambda: ledger.remove(ledger.jobs()[0], "anna"),
    ):
        before = ledger.newest
        act()
        assert before < ledger.newest == ledger.newest_change()


def test_a_change_without_its_row_in_the_audit_trail_is_none(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(ledger)
    access.issue("root", "root", "admin", "root")
    state = lambda: (  # noqa: E731
        [(token.name, token.digest, token.revoked) for token in access.tokens()],
        access.quotas(),
    )
    before = state()
    monkeypatch.setattr(statements, "NOTE", text("INSERT INTO nowhere VALUES (1)"))
    for act in (
        lambda: access.issue("a", "anna", "admin", "root"),
        lambda: access.enter("file-a", "admin", "x" * 40, "root"),
        lambda: access.rotate("root", "root"),
        lambda: access.revoke("root", "root"),
        lambda: access.set_quota("anna", 1.0, None, "root"),
    ):
        with pytest.raises(DBAPIError):
            act()
        assert state() == before


def test_opening_again_keeps_jobs_and_prefix(ledger: Ledger, url: str) -> None:
    job = ledger.submit("anna", "train", ["name=a"])
    with closing(Database(url)) as again:
        assert again.prefix == ledger.database.prefix
        assert Ledger(again).job(job.id).words == ["name=a"]


def test_a_change_that_was_decided_on_an_older_state_is_refused(ledger: Ledger) -> None:
    job = waiting(ledger)
    ledger.change(job, State.STOPPED, "anna", "no longer needed")
    with pytest.raises(ConflictError):
        bring(ledger, job, State.STARTING)
    assert ledger.job(job.id).state == State.STOPPED
    assert ledger.attempts(job.id) == []  # the transaction left nothing of itself


def test_of_many_that_change_a_job_at_once_one_does(ledger: Ledger) -> None:
    job = waiting(ledger)
    outcomes: list[str] = []
    gate = threading.Barrier(6)

    def attempt() -> None:
        gate.wait()
        try:
            bring(ledger, job, State.STARTING)
            outcomes.append("began")
        except ConflictError:
            outcomes.append("refused")

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["began"] + ["refused"] * 5
    assert [attempt.number for attempt in ledger.attempts(job.id)] == [1]


def test_only_the_table_of_moves_is_allowed(ledger: Ledger) -> None:
    job = ledger.submit("anna", "train", [])
    for state in set(State) - MOVES[State.SUBMITTED]:
        with pytest.raises(ConflictError, match="cannot become"):
            ledger.change(job, state, "anna", "")
    assert ledger.job(job.id).state == State.SUBMITTED


def test_the_database_refuses_to_alter_the_audit_trail(ledger: Ledger) -> None:
    ledger.submit("anna", "train", [])
    for statement in ("UPDATE changes SET actor = 'x'", "DELETE FROM changes"):
        with pytest.raises(DBAPIError, match="append-only"), ledger.database.write() as session:
            session.execute(text(statement))
        assert len(ledger.changes()) == 1


def test_a_removed_job_stays_in_the_audit_trail_and_its_number_is_not_given_again(ledger: Ledger) -> None:
    job = ledger.submit("anna", "train", [])
    with pytest.raises(ConflictError, match="stop it first"):
        ledger.remove(job, "anna")
    ledger.remove(ledger.change(job, State.STOPPED, "anna", ""), "anna")
    with pytest.raises(UnknownJobError):
        ledger.job(job.id)
    assert ledger.changes(job=job.id)[-1].action == "remove"
    assert ledger.submit("anna", "train", []).seq > job.seq


def test_the_same_key_is_the_same_job_for_its_owner_alone(ledger: Ledger) -> None:
    first = ledger.submit("anna", "train", [], key="k")
    assert ledger.submit("anna", "train", [], key="k").id == first.id
    assert ledger.submit("ben", "train", [], key="k").id != first.id
    assert len(ledger.jobs()) == 2


def test_a_job_after_one_that_there_is_not_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UnknownJobError):
        ledger.submit("anna", "train", [], after=["none-1"])
    assert ledger.jobs() == []


@pytest.fixture
def access(ledger: Ledger) -> Iterator[Access]:
    yield Access(ledger)


def test_a_token_is_kept_as_its_hash_and_dies_when_revoked(access: Access) -> None:
    with pytest.raises(UserError, match="the first token must be an admin's"):
        access.issue("laptop", "anna", "submitter", "root")
    access.issue("mine", "root", "admin", "root")
    token = access.issue("laptop", "anna", "submitter", "root")
    assert access.person(token) == Person("anna", "submitter")
    assert access.person(token + "x") is None
    with access.ledger.database.read() as session:
        stored = session.scalars(select(Token).where(Token.name == "laptop")).one()
        trail = session.scalars(select(Change)).all()
    assert token not in str([stored.digest, stored.name, *(one.reason for one in trail)])
    access.revoke("laptop", "root")
    assert access.person(token) is None
    with pytest.raises(UserError, match="there is none that is valid"):
        access.revoke("laptop", "root")
    with pytest.raises(UserError, match="there is one of that name"):
        access.issue("laptop", "anna", "viewer", "root")
    with pytest.raises(UserError, match="role"):
        access.issue("other", "anna", "root", "root")


def test_roles_include_each_other() -> None:
    assert Person("a", "admin").may("submitter")
    assert not Person("a", "viewer").may("submitter")


def test_quotas_are_replaced_not_added(access: Access) -> None:
    access.set_quota("anna", 4, None, "root")
    access.set_quota("anna", 2, 1, "root")
    assert access.quotas() == {"anna": (2, 1, None)}
    with pytest.raises(UserError, match="cpus=-1"):
        access.set_quota("anna", -1, None, "root")


@pytest.mark.parametrize(
    ("url", "words"),
    [("mysql://x/y", "mysql is not known"), ("nonsense", "no URL of a database"), ("sqlite://", "sqlite needs a file")],
)
def test_a_url_that_names_no_database_is_refused_by_its_key(url: str, words: str) -> None:
    with pytest.raises(UserError, match=f"service.ledger: .*{words}"):
        Database(url)


@pytest.mark.parametrize("links", [True, False])
def test_a_new_sqlite_file_is_its_owners_alone(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("this file system has no hard links")

    if not links:
        monkeypatch.setattr("os.link", refused)
    with closing(Database(f"sqlite:///{tmp_path}/ledger.db")):
        assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("ledger.db*")} == {0o600}


def test_who_waits_for_an_answer_writes_before_the_loop_which_still_gets_its_turns() -> None:
    turns, order = Turns(), list[str]()

    def write(name: str, urgent: bool) -> None:
        with turns.take(urgent):
            order.append(name)

    threads = [threading.Thread(target=write, args=(f"loop-{number}", False)) for number in range(3)]
    threads += [threading.Thread(target=write, args=(f"request-{number}", True)) for number in range(6)]
    with turns.take(False):
        for thread in threads:
            thread.start()
            while len(turns._others) + len(turns._urgent) <= threads.index(thread):
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    first = ["request-0", "request-1", "request-2", "loop-0", "request-3", "request-4", "request-5", "loop-1", "loop-2"]
    assert order == first
