"""What the containers of docker-compose.yml run, started for real: PostgreSQL, an S3 server, MLflow behind its login,
the job service over its ledger, the endpoint; Prometheus over them answers every query of the dashboards."""

import configparser
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
import yaml

from model.ports import free_ports
from pipelines.tracking.registry import Registry, RegistryConfig, register_bundle
from pipelines.tracking.run import TrackedRun
from pipelines.tracking.server import TrackingConfig
from services.jobs.client.client import JobClient
from services.jobs.ledger.database import Database
from services.jobs.ledger.ledger import Ledger
from tests.services.stack import COMPOSITION, DEPLOY, PATIENCE, Stack, stack

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
    config = TrackingConfig(uri=tracking, artifacts=str(tmp_path), system_metrics=False, timeout=60, flush_timeout=90)
    run = TrackedRun(config, tmp_path / "run", "small")
    registry = RegistryConfig(name="phrasebook-en-de")
    assert register_bundle(config, registry, run, bundle) == "1"
    assert run.finish("FINISHED")
    Registry(config, registry).set_champion("1")

    answer = running.wait("endpoint", "/status", lambda answer: answer.status_code == 200).json()
    assert (answer["model"]["name"], answer["model"]["version"]) == ("phrasebook-en-de", "1")
    translated = httpx.post(
        f"{running.url('endpoint')}/translate", json={"q": "the dog", "source": "en", "target": "de"}, timeout=PATIENCE
    )
    assert translated.headers["X-Model-Version"] == "1" and translated.json()["translatedText"]

    bucket = boto3.client(
        "s3", endpoint_url=running.url("s3"), aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1"
    )
    kept = bucket.list_objects_v2(Bucket="dragoman", Prefix="mlflow/")
    assert any(one["Key"].endswith("/model.safetensors") for one in kept["Contents"])
    for service in ("mlflow", "jobs", "endpoint"):
        for secret in ("postgres_password", "jobs_admin_token", "ray_token"):
            assert running.secret(secret) not in running.log(service)
        assert password not in running.log(service)


@pytest.fixture(scope="module")
def prometheus(running: Stack) -> Iterator[str]:
    """Debian's Prometheus with the composition's configuration; the address of its interface."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian: prometheus)")
    config = yaml.safe_load(running.here((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")))
    assert config["global"]["scrape_interval"] == "15s"
    config["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"}
    folder = running.folder / "prometheus"
    folder.mkdir()
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(DEPLOY / "prometheus" / "rules.yml", folder)
    (port,) = free_ports(1)
    words = [
        word.replace("/etc/prometheus", str(folder)).replace("/prometheus", str(folder / "data"), 1)
        if word.startswith("--storage.tsdb.path")
        else word.replace("/etc/prometheus", str(folder))
        for word in COMPOSITION["services"]["prometheus"]["command"]
    ]
    with (running.folder / "prometheus.log").open("wb") as log:
        running.processes["prometheus"] = subprocess.Popen(
            [program, *words, f"--web.listen-address=127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running.ports["prometheus"] = port
    running.wait("prometheus", "/-/ready", lambda answer: answer.status_code == 200)
    yield running.url("prometheus")


def ask(address: str, query: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{address}/api/v1/query", params={"query": query}, timeout=PATIENCE).json()
    assert answer["status"] == "success", f"{query}: {answer}"
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def test_prometheus_reads_both_services_and_answers_every_query_of_the_dashboards(
    running: Stack, prometheus: str
) -> None:
    running.wait("jobs", "/status", lambda answer: answer.status_code == 200)
    with JobClient(running.url("jobs"), running.secret("jobs_admin_token")) as client:
        client._ask("PUT", "/v1/quotas/anna", json={"cpus": 4, "gpus": 1})
    ended = "dragoman_characters_total"  # the endpoint has been asked by then, or is asked nothing
    deadline = time.monotonic() + 30
    while {one["metric"]["job"]: one["value"][1] for one in ask(prometheus, "up")} != {
        "dragoman-jobs": "1",
        "dragoman-endpoint": "1",
    } or not ask(prometheus, f"rate({ended}[5s])"):
        assert time.monotonic() < deadline, running.log("prometheus")
        time.sleep(0.2)
    empty = []
    for board in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        for panel in json.loads(board.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", "10s")
                if not ask(prometheus, query):
                    empty.append(f"{board.stem}: {panel['title']}: {query}")
    # What has no series before anything happened: attempts that began again, a cluster that was never there.
    quiet = ("dragoman_recovery_seconds", "dragoman_cluster_capacity")
    assert [line for line in empty if not any(name in line for name in quiet)] == []
    rules = httpx.get(f"{prometheus}/api/v1/rules", timeout=PATIENCE).json()["data"]["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} <= {"ok", "unknown"}
    assert sum(len(group["rules"]) for group in rules) == 14
