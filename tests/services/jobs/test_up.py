"""`dragoman up` with a real Ray: a job from the command line to its log, a mistake refused, nothing left running."""

import json
import subprocess
from pathlib import Path

import httpx
import psutil
import pytest

from dragoman.model.runs.spool import Spool
from dragoman.pipelines.tracking.author import user
from dragoman.pipelines.tracking.promotion import Comparison, promote, rollback
from dragoman.pipelines.tracking.registry import Registry, register_bundle
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.settings import PromoteConfig, RegistryConfig, TrackingConfig
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.up.mlflow import ADMIN, FILES, JOBS, Login, read_login
from tests.services.jobs.team import COMMAND, REPOSITORY, environment, serving, wait

pytestmark = pytest.mark.long
API, ARTIFACTS = "/api/2.0/mlflow", "/api/2.0/mlflow-artifacts/artifacts"
WRITES = (
    *(f"{API}/{path}" for path in ("experiments/create", "runs/create", "runs/log-metric", "runs/set-tag")),
    *(f"{API}/registered-models/{action}" for action in ("create", "alias", "set-tag", "rename")),
    *(f"{API}/model-versions/create", "/ajax-api/2.0/mlflow/upload-artifact?run_uuid=x&path=pwn.txt"),
)
QUIET = ["service.endpoint=false", "service.tracking=false", "service.port=0", "service.ports=0", "service.cpus=1"]


def test_a_job_of_the_service_runs_on_ray_and_nothing_is_left_behind(tmp_path: Path) -> None:
    variables = environment(tmp_path, LOGNAME="anna")

    def dragoman(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words], cwd=REPOSITORY, env=variables, capture_output=True, text=True, timeout=300, check=False
        )

    with serving(tmp_path, *QUIET):
        refused = dragoman("submit", "doctor", "train.max_stps=1")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "unknown key: 'max_stps'" in refused.stderr
        submitted = dragoman("submit", "doctor")
        assert submitted.returncode == 0, submitted.stderr
        job = submitted.stdout.strip()
        followed = dragoman("logs", job, "-f")
        assert followed.returncode in (0, 1), followed.stderr  # what the doctor finds is this machine's
        assert "cores" in followed.stdout
        assert "attempt 1 runs" in dragoman("job", job).stdout
        (up,) = (child for child in psutil.Process().children() if "up" in child.cmdline())
        family = up.children(recursive=True)
        assert family
        other = dragoman("up", *QUIET)
        assert (other.returncode, "runs on this folder already" in other.stderr) == (2, True)
    _, left = psutil.wait_procs(family, timeout=10)
    assert not left
    assert not (tmp_path / "service" / "address.json").exists()


def test_mlflow_asks_for_a_login_from_the_first_token_on_and_jobs_have_a_lesser_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Ray: the cluster that is named does not answer, and nothing here needs it."""
    quiet = ["service.endpoint=false", "service.port=0", "service.ports=0", "service.address=http://127.0.0.1:1"]
    said = tmp_path.with_suffix(".said")
    with serving(tmp_path, *quiet, "service.auth=disabled"):
        where = json.loads((tmp_path / "service" / "address.json").read_text())
        search = f"{where['mlflow']}/api/2.0/mlflow/experiments/search?max_results=5"
        assert answer(search) == 200  # the service asks for nothing, nor does MLflow
        made = {"name": "before"}
        httpx.post(f"{where['mlflow']}/api/2.0/mlflow/registered-models/create", json=made, timeout=60)
        with JobClient(where["jobs"], owner="root") as client:
            token = client.call("issue", {"name": "root", "owner": "root", "role": "admin"})["token"]
        people, jobs = (read_login(tmp_path / "service" / FILES[user]) for user in (ADMIN, JOBS))
        wait(lambda: answer(search) == 401, said.read_text)
        wait(lambda: answer(search, jobs) == answer(search, people) == 200, said.read_text)
        with httpx.Client(base_url=f"{where['mlflow']}/api", auth=(jobs.user, jobs.password), timeout=60) as mlflow:
            tag = {"name": "before", "key": "k", "value": "v"}
            wait(lambda: mlflow.post("/2.0/mlflow/registered-models/set-tag", json=tag).is_success, said.read_text)
            assert mlflow.post("/2.0/mlflow/registered-models/create", json={"name": "own"}).status_code == 200
            for method, path, body in (
                ("POST", "/2.0/mlflow/users/create", {"username": "x", "password": "y" * 20}),
                ("PATCH", "/2.0/mlflow/users/update-password", {"username": people.user, "password": "y" * 20}),
                ("PATCH", "/2.0/mlflow/users/update-admin", {"username": jobs.user, "is_admin": True}),
                ("DELETE", "/2.0/mlflow/registered-models/delete", {"name": "before"}),
            ):
                assert mlflow.request(method, path, json=body).status_code == 403, path
        outside = {"name": "outside", "artifact_location": f"file://{tmp_path}/service"}
        for who in (people, jobs):  # for everybody
            create = f"{where['mlflow']}/api/2.0/mlflow/experiments/create"
            answer_ = httpx.post(create, json=outside, auth=(who.user, who.password), timeout=60)
            assert answer_.status_code == 403 and "artifact_location" in answer_.text
        with JobClient(where["jobs"], token) as client:
            tokens = {"admin": token}
            for role in ("viewer", "submitter"):
                tokens[role] = client.call("issue", {"name": role, "owner": role, "role": role})["token"]
        for role, secret in tokens.items():  # the pages' login: a token as the password
            assert httpx.get(search, auth=(role, secret), timeout=60).status_code == 200
            with httpx.Client(base_url=where["mlflow"], auth=(role, secret), timeout=60) as person:
                for path in WRITES:
                    body = {"name": "before", "new_name": "x", "key": "k", "value": "v", "alias": "champion"}
                    assert person.post(path, json=body).status_code == 403, (role, path)
                assert person.put(f"{ARTIFACTS}/1/a/config.json", content=b"{}").status_code == 403, role
                assert person.delete(f"{ARTIFACTS}/1/a/config.json").status_code == 403, role
        assert httpx.get(search, auth=("anna", "dgm_wrong"), timeout=60).status_code == 401
        variables = {**jobs.variables(), "DRAGOMAN_JOB": "j1-1", "DRAGOMAN_OWNER": "anna"}
        for name, value in {**variables, "DRAGOMAN_MODEL_OWNER": "anna"}.items():
            monkeypatch.setenv(name, value)
        release(TrackingConfig(uri=where["mlflow"], timeout=60.0, system_metrics=False), tmp_path / "runs" / "a")
        for secret in (tmp_path / "service").glob("mlflow_*credentials"):
            assert secret.stat().st_mode & 0o777 == 0o600
        logs = "".join(path.read_text(errors="replace") for path in (said, *(tmp_path / "service").glob("*.log")))
        assert all(secret not in logs for secret in (people.password, jobs.password, token))
        assert FILES[ADMIN] in logs  # where the admin finds it


def release(tracking: TrackingConfig, run_dir: Path) -> None:
    """All that a job does with MLflow: a run with its artifacts, a version, the alias forward and back."""
    bundle = run_dir / "bundle"
    bundle.mkdir(parents=True)
    registry = RegistryConfig(name="mine")
    for number in (1, 2):
        (bundle / "config.json").write_text(json.dumps({"pair": "en-de", "number": number}))
        with TrackedRun(tracking, run_dir, "a") as run:
            run.tags({"kind": "train", "mlflow.user": user()})
            run.params({"seed": 1})
            run.metrics(number, {"loss": 2.0})
            run.text("curves", "curves.txt")
            run.dataset("demo", "ab" * 32, {"source": "here"})
            run.link("shard_run_id", {"kind": "shard"})
            assert register_bundle(tracking, registry, run, bundle) == str(number)
    assert not Spool(run_dir).pending() and not (run_dir / "spool" / "refused.jsonl").exists()
    opened = Registry(tracking, registry)
    for version in ("1", "2"):
        config = PromoteConfig(version=version, force=True, reason="a test")
        assert promote(opened, config, never, run_dir / "lock").accepted
    assert rollback(opened, "", run_dir / "lock").champion == "1"
    assert (opened.bundle(opened.versions()[0], run_dir / "fetched") / "config.json").is_file()


def never(*_: object) -> Comparison:
    pytest.fail("nothing was to be compared")


def answer(address: str, login: Login | None = None) -> int:
    """The status code; 0 where nothing answers."""
    try:
        return httpx.get(address, auth=(login.user, login.password) if login else None, timeout=60).status_code
    except httpx.HTTPError:
        return 0
