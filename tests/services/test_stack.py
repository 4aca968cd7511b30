"""What the containers of docker-compose.yml run, started for real: PostgreSQL, an S3 server, MLflow behind its login,
the job service over its ledger, the endpoint."""

import configparser
from collections.abc import Iterator
from pathlib import Path

import boto3
import httpx
import pytest

from pipelines.tracking.registry import Registry, RegistryConfig
from pipelines.tracking.server import TrackingConfig
from services.jobs.client.client import JobClient
from services.jobs.ledger.database import Database
from services.jobs.ledger.ledger import Ledger
from tests.services.stack import PATIENCE, Stack, stack

TAKEN = ("doctor", [])  # a job that needs nothing


@pytest.fixture(scope="module")
def running() -> Iterator[Stack]:
    with stack() as one:
        yield one


def login(one: Stack) -> tuple[str, str]:
    found = configparser.ConfigParser()
    found.read_string(one.secret("mlflow_credentials"))
    return found["mlflow"]["mlflow_tracking_username"], found["mlflow"]["mlflow_tracking_password"]


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


def test_a_model_goes_from_mlflow_and_its_bucket_to_the_endpoint(
    running: Stack, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.wait("mlflow", "/health", lambda answer: answer.status_code == 200)
    tracking = running.url("mlflow")
    search = f"{tracking}/api/2.0/mlflow/experiments/search?max_results=5"
    assert httpx.get(search, timeout=PATIENCE).status_code == 401
    assert httpx.get(search, auth=login(running), timeout=PATIENCE).status_code == 200
    waiting = running.wait(
        "endpoint", "/status", lambda answer: "aliases" in str(answer.json()) or answer.json()["reload_error"]
    )
    assert (waiting.status_code, waiting.json()["status"]) == (503, "loading")

    user, password = login(running)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", user)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
    registry = Registry(
        TrackingConfig(uri=tracking, artifacts=str(tmp_path), timeout=60), RegistryConfig(name="phrasebook-en-de")
    )
    mlflow = registry.client
    run = mlflow.create_run("0").info.run_id
    mlflow.log_artifacts(run, str(bundle), "model/bundle")  # through the server, which alone may write into the bucket
    mlflow.create_registered_model("phrasebook-en-de")
    mlflow.create_model_version("phrasebook-en-de", f"runs:/{run}/model", run)
    registry.set_champion("1")

    answer = running.wait("endpoint", "/status", lambda answer: answer.status_code == 200).json()
    assert (answer["model"]["name"], answer["model"]["version"]) == ("phrasebook-en-de", "1")
    translated = httpx.post(
        f"{running.url('endpoint')}/translate", json={"q": "the dog", "source": "en", "target": "de"}, timeout=PATIENCE
    )
    assert translated.headers["X-Model-Version"] == "1" and translated.json()["translatedText"]

    # The pages ask MLflow with the same file that every client of the composition has.
    with httpx.Client(base_url=running.url("jobs"), timeout=PATIENCE, follow_redirects=True) as browser:
        page = browser.post("/login", data={"token": running.secret("jobs_admin_token"), "next": "/models"})
    assert page.url.path == "/models" and "phrasebook-en-de" in page.text and "401" not in page.text

    bucket = boto3.client(
        "s3", endpoint_url=running.url("s3"), aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1"
    )
    kept = bucket.list_objects_v2(Bucket="dragoman", Prefix="mlflow/")
    assert any(one["Key"].endswith("/model.safetensors") for one in kept["Contents"])
    for service in ("mlflow", "jobs", "endpoint"):
        for secret in ("postgres_password", "jobs_admin_token", "ray_token"):
            assert running.secret(secret) not in running.log(service)
        assert password not in running.log(service)
