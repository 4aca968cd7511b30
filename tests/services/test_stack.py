"""What the containers of docker-compose.yml run, started for real: PostgreSQL, an S3 server, MLflow behind its login,
the job service over its ledger, the endpoint."""

import configparser
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import boto3
import httpx
import pytest

from dragoman.pipelines.tracking.registry import Registry
from dragoman.pipelines.tracking.settings import RegistryConfig, TrackingConfig
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.executor import Start
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from tests.manifests import mount, of, rendered, variables
from tests.services.stack import BIN, PATIENCE, REPOSITORY, Stack, stack

pytestmark = pytest.mark.long
TAKEN = ("doctor", [])  # a job that needs nothing
SMALL = (
    *("experiment=demo", "corpus.pairs=400", "tokenizer=characters", "cluster.backend=local", "cluster.workers=1"),
    *("model.width=16", "model.heads=2", "model.feed_forward=16", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("train.max_steps=4", "train.checkpoint_every=2", "train.evaluate_every=4", "evaluate.sentences=8"),
    *("paths.shards=s3://dragoman/shards/pod", "registry.name=of-a-pod", "name=of-a-pod"),
)


@pytest.fixture(scope="module")
def running() -> Iterator[Stack]:
    with stack() as one:
        yield one


def login(one: Stack) -> tuple[str, str]:
    found = configparser.ConfigParser()
    found.read_string(one.secret("mlflow_credentials"))
    return found["mlflow"]["mlflow_tracking_username"], found["mlflow"]["mlflow_tracking_password"]


def test_the_job_service_keeps_its_ledger_in_postgresql_behind_tokens(running: Stack) -> None:
    status = running.wait("jobs", "/status", lambda answer: "Ray" in answer.json()["trouble"]).json()
    assert "127.0.0.1" in status["trouble"]["Ray"] and status["keys"]
    assert running.is_healthy("jobs")
    assert httpx.get(f"{running.url('jobs')}/v1/jobs", timeout=PATIENCE).status_code == 401
    verb, words = TAKEN
    with JobClient(running.url("jobs"), running.secret("jobs_admin_token")) as client:
        job = client.submit(verb, words)
        assert client.planned(job["id"])["state"] == "waiting"
        assert client.call("why", id=job["id"])["text"].startswith("the cluster does not answer")
    scraping = {"Authorization": f"Bearer {running.secret('jobs_metrics_token')}"}  # opens /metrics and nothing else
    for path, code in (("/metrics", 200), ("/v1/jobs", 403), ("/v1/quotas", 403)):
        assert httpx.get(f"{running.url('jobs')}{path}", headers=scraping, timeout=PATIENCE).status_code == code
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
        TrackingConfig(uri=tracking, artifacts=str(tmp_path), timeout=60), RegistryConfig(name="everyday-en-de")
    )
    mlflow = registry.client
    run = mlflow.create_run("0").info.run_id
    mlflow.log_artifacts(run, str(bundle), "model/bundle")  # through the server, which alone may write into the bucket
    mlflow.create_registered_model("everyday-en-de")
    mlflow.create_model_version("everyday-en-de", f"runs:/{run}/model", run)
    registry.set_champion("1")

    answer = running.wait("endpoint", "/status", lambda answer: answer.status_code == 200).json()
    assert (answer["model"]["name"], answer["model"]["version"]) == ("everyday-en-de", "1")
    translated = httpx.post(
        f"{running.url('endpoint')}/translate", json={"q": "the dog", "source": "en", "target": "de"}, timeout=PATIENCE
    )
    assert translated.headers["X-Model-Version"] == "1" and translated.json()["translatedText"]

    # The pages ask MLflow with the same file that every client of the composition has.
    with httpx.Client(base_url=running.url("jobs"), timeout=PATIENCE, follow_redirects=True) as browser:
        page = browser.post("/login", data={"token": running.secret("jobs_admin_token"), "next": "/"})
    assert page.url.path in ("/", "/jobs") and "401" not in page.text

    bucket = boto3.client(
        "s3", endpoint_url=running.url("s3"), aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1"
    )
    kept = bucket.list_objects_v2(Bucket="dragoman", Prefix="mlflow/")
    assert any(one["Key"].endswith("/model.safetensors") for one in kept["Contents"])
    for service in ("mlflow", "jobs", "endpoint"):
        for secret in ("postgres_password", "jobs_admin_token", "ray_token"):
            assert running.secret(secret) not in running.log(service)
        assert password not in running.log(service)


def moved_here(text: str, moved: dict[str, str]) -> str:
    """A variable's value or a command line with a place of the pod replaced by its place here."""
    for place in sorted(moved, key=len, reverse=True):
        if text.startswith(place) or f" {place} " in text:
            return text.replace(place, moved[place], 1)
    return text


def test_train_runs_with_the_environment_and_the_files_of_its_pod(running: Stack, tmp_path: Path) -> None:
    """A job as a process with the variables of a pod of the site's Ray cluster and nothing else, its mounts below a
    folder, and the site's MLflow and bucket at their places here."""
    running.wait("mlflow", "/health", lambda answer: answer.status_code == 200)
    manifests = rendered("site")
    site = of(manifests, "ConfigMap")["dragoman-places"]["data"]
    elsewhere = {"http://mlflow:5000": running.url("mlflow"), site["AWS_ENDPOINT_URL"]: running.url("s3")}
    for number, verb in enumerate(("shard", "train"), 1):
        start = Start(f"jab12-{number}", 1, verb, SMALL, "anna", 0, 1, 1.0, 0.0, spreads=False)
        (cluster,) = of(manifests, "RayCluster").values()
        pod = cluster["spec"]["headGroupSpec"]["template"]["spec"]
        moved = {**elsewhere, "/home/dragoman": f"{tmp_path}/home/dragoman"}
        moved |= mount(pod, {"dragoman": running.secrets}, tmp_path)
        image = {"PATH": f"{BIN}:{os.defpath}", "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"}
        given = {
            name: moved_here(value, moved) for name, value in (variables(pod, manifests) | start.variables()).items()
        }
        done = subprocess.run(
            ["sh", "-c", moved_here(start.entrypoint("python", Path("/data")), moved)],
            env={**image, **given},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout
    asked = {"auth": login(running), "timeout": PATIENCE}
    found = httpx.get(
        f"{running.url('mlflow')}/api/2.0/mlflow/registered-models/get", params={"name": "of-a-pod"}, **asked
    ).json()
    (version,) = found["registered_model"]["latest_versions"]
    run = httpx.get(f"{running.url('mlflow')}/api/2.0/mlflow/runs/get", params={"run_id": version["run_id"]}, **asked)
    assert run.json()["run"]["info"]["status"] == "FINISHED"
    assert (tmp_path / "data" / "runs" / "of-a-pod").is_dir()
    assert running.secret("mlflow_credentials").split()[-1] not in done.stdout
