"""What the job service's container runs, started for real over a PostgreSQL that was set up as its container is."""

from collections.abc import Iterator

import httpx
import pytest

from services.jobs.client.client import JobClient
from services.jobs.ledger.database import Database
from services.jobs.ledger.ledger import Ledger
from tests.services.stack import PATIENCE, Stack, stack

TAKEN = ("doctor", [])  # a job that needs nothing


@pytest.fixture(scope="module")
def running() -> Iterator[Stack]:
    with stack() as one:
        yield one


def test_the_job_service_keeps_its_ledger_in_postgresql_behind_tokens(running: Stack) -> None:
    status = running.wait("jobs", "/status", lambda answer: answer.json()["status"] == "degraded").json()
    assert "127.0.0.1" in status["trouble"] and status["keys"]
    assert running.is_healthy("jobs")
    assert httpx.get(f"{running.url('jobs')}/v1/jobs", timeout=PATIENCE).status_code == 401
    verb, words = TAKEN
    with JobClient(running.url("jobs"), running.secret("jobs_admin_token")) as client:
        job = client.submit(verb, words)
        assert client.planned(job["id"])["state"] == "waiting"
        assert client.why(job["id"])["text"].startswith("the cluster does not answer")
    with JobClient(running.url("jobs"), running.secret("jobs_metrics_token")) as viewer:
        assert viewer.jobs()["jobs"] == []  # whoever reads metrics sees no jobs but his own
    assert running.secret("ledger_password") not in running.log("jobs")
    url = running.here("postgresql://ledger@postgres/ledger")
    database = Database(url, running.secret("ledger_password"))
    assert [one.id for one in Ledger(database).jobs()] == [job["id"]]
    database.close()
