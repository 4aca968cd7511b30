"""A job's rights are those of the token that submitted it, not of its owner's best one, and end with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring


@dataclass
class Team:
    """A service of an admin, root, and of bert, whose shards nobody else may read."""

    loop: Loop
    access: Access
    shards: Path
    root: str  # root's token

    def person(self, token: str) -> Person:
        found = self.access.person(token)
        assert found is not None
        return found

    def start(self, person: Person) -> Job:
        """Hands a job over that reads bert's shards; returns it as it is afterwards."""
        ledger, places = self.loop.ledger, [{"key": "paths.shards", "value": "x", "path": str(self.shards)}]
        lender = self.loop.intake.rights.lender(person)
        job = ledger.submit(person.owner, "train", [], admin=person.may("admin"), token=lender)
        plan = {"places": [{**places[0], "use": "read"}], "verb": "train", "words": []}
        job = bring(ledger, job, State.STARTING, plan=plan, choices=[1])
        return next(one for one in ledger.jobs([State.STARTING], plans=True) if one.id == job.id)

    def hand_over(self, job: Job) -> str:
        self.loop.attempts.hand_over(job)
        return self.loop.ledger.job(job.id).reason


@pytest.fixture
def team(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    monkeypatch.setattr(loop.attempts.executor, "submit", lambda _: None)
    access, shards = loop.scheduler.access, tmp_path / "shards/bert/mine"
    loop.intake.ownership.mark("bert", [{"path": str(shards), "use": "write"}])
    shards.mkdir()
    yield Team(loop, access, shards, access.issue("r", "root", "admin", "up"))


def test_a_limited_token_of_an_admin_reads_what_its_role_may_read(team: Team) -> None:
    limited = team.access.issue("ci", "root", "submitter", "root", "30d")
    assert "belongs to another owner" in team.hand_over(team.start(team.person(limited)))
    assert "another owner" not in team.hand_over(team.start(team.person(team.root)))


def test_a_job_loses_an_admins_rights_when_its_token_is_revoked_or_ends(team: Team) -> None:
    for ending in ("revoked", "expired"):
        token = team.access.issue(ending, "root", "admin", "root", "30d")
        job = team.start(team.person(token))
        if ending == "revoked":
            team.access.revoke(ending, "root")
        else:
            team.loop.ledger.now = lambda: 4e9
        assert "belongs to another owner" in team.hand_over(job)


def test_a_job_from_before_the_first_token_is_no_admins_afterwards(loop: Loop) -> None:
    job = loop.ledger.submit("anna", "train", [], admin=True)
    assert loop.intake.rights.is_admin(job)
    Access(loop.ledger).issue("r", "root", "admin", "up")
    assert not loop.intake.rights.is_admin(job)
