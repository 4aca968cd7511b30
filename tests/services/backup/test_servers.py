"""A backup of what stands on servers: ledger and MLflow on PostgreSQL, artifacts and the archive in a bucket (S3)."""

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric

from bench.s3_server import Proxy
from dragoman.model.storage import remote
from dragoman.services import cli
from dragoman.services.store.copying import with_driver
from tests.services.backup.home import contents, fill_ledger, make_home
from tests.services.backup.test_backup import jobs_of
from tests.services.jobs.conftest import Postgres, new_database, postgres

__all__ = ["postgres"]  # a fixture


def client_of(url: str) -> MlflowClient:
    """Returns a client that no address of the process leads elsewhere."""
    return MlflowClient(tracking_uri=with_driver(url), registry_uri=with_driver(url))


def fill_mlflow(url: str, artifacts: str, folder: Path) -> None:
    """Makes what a training, a registration and a promotion leave."""
    client = client_of(url)
    experiment = client.create_experiment("dragoman", artifacts)
    for number in (1, 2):
        run = client.create_run(experiment, run_name=f"run {number}", tags={"kind": "train", "note": "ä\n'\""}).info
        metrics = [Metric("loss", value, 1000 * step, step) for step, value in enumerate((2.5, 1e-30, float("nan")))]
        client.log_batch(run.run_id, metrics)
        client.log_param(run.run_id, "seed", str(number))
        file = folder / "weights"
        file.write_text(f"weights of {number}")
        client.log_artifact(run.run_id, str(file), "bundle")
        client.set_terminated(run.run_id)
        if number == 1:
            client.create_registered_model("demo-en-de", tags={"dragoman.owner": "anna"})
        client.create_model_version("demo-en-de", f"{run.artifact_uri}/bundle", run.run_id, tags={"bleu": "88.2"})
    client.set_registered_model_alias("demo-en-de", "champion", "1")


def look_at_mlflow(url: str, folder: Path) -> list[Any]:
    """Returns all of it, in a form that can be compared."""
    client, found = client_of(url), list[Any]()
    for experiment in client.search_experiments(order_by=["experiment_id"]):
        found.append((experiment.experiment_id, experiment.name, experiment.artifact_location))
        for run in client.search_runs([experiment.experiment_id], order_by=["attributes.run_name"]):
            history = [
                (one.step, str(one.value), one.timestamp) for one in client.get_metric_history(run.info.run_id, "loss")
            ]
            found.append((run.info.run_id, run.info.run_name, run.info.status, run.info.artifact_uri, run.data.tags))
            found += [run.data.params, history]
            target = folder / run.info.run_id
            target.mkdir(parents=True, exist_ok=True)
            found.append(Path(client.download_artifacts(run.info.run_id, "bundle/weights", str(target))).read_text())
    for model in client.search_registered_models():
        found.append((model.name, model.tags, model.aliases))
    for version in sorted(client.search_model_versions(), key=lambda one: str(one.version)):
        found.append((version.version, version.run_id, version.source, version.tags))
    return found


def words(home: Path, ledger: str, mlflow: str, bucket: str) -> list[str]:
    quoted = [f"{key}='{url}'" for key, url in (("service.ledger", ledger), ("backup.mlflow", mlflow))]
    return [f"paths.root={home}", *quoted, f"backup.buckets=[{bucket}]", "backup.patience=20"]


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's registry
@pytest.mark.long
def test_what_stands_on_servers_comes_back_from_a_bucket(
    tmp_path: Path, postgres: Postgres, s3: Proxy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MLflow names its default experiment's folder after the working folder
    home, place = tmp_path / "home", f"s3://bucket/{tmp_path.name}-servers"
    archive, bucket = f"{place}/archive", f"{place}/mlflow"
    ledger, mlflow = new_database(postgres), new_database(postgres)
    make_home(home)
    for name in ("service/ledger.db", "mlflow/mlflow.db"):
        (home / name).unlink()
    fill_ledger(ledger, home)
    fill_mlflow(mlflow, bucket, tmp_path)
    jobs, tracked, files = jobs_of(ledger), look_at_mlflow(mlflow, tmp_path / "a"), contents(home)
    assert len(tracked) == 13

    s3.fault("status", "PUT", "/archive/home/", times=3)  # the bucket is busy
    assert cli.main(["backup", archive, *words(home, ledger, mlflow, bucket), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["tables"]["mlflow"] == {"runs": 2, "registered_models": 1, "model_versions": 2}
    assert made["tables"]["ledger"]["jobs"] == 2
    assert cli.main(["backup", archive, *words(home, ledger, mlflow, bucket), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["new_files"] <= 2  # the copies of the databases at most

    for name in remote.names(bucket):
        remote.delete(f"{bucket}/{name}")
    other, again = tmp_path / "other", (new_database(postgres), new_database(postgres))
    assert cli.main(["restore", archive, *words(other, *again, bucket)]) == 0, capsys.readouterr().err
    assert jobs_of(again[0]) == jobs
    assert look_at_mlflow(again[1], tmp_path / "b") == tracked
    for name in ("service/address.json", "cache/models/big"):
        del files[name]
    assert contents(other) == files
    client = client_of(again[1])
    assert client.create_experiment("later")  # numbers go on
    assert int(client.create_model_version("demo-en-de", f"{bucket}/x").version) == 3

    file = f"sqlite:///{tmp_path}/third/mlflow/mlflow.db"  # and from there to a home without servers
    for name in remote.names(bucket):
        remote.delete(f"{bucket}/{name}")
    alone = words(tmp_path / "third", f"sqlite:///{tmp_path}/third/service/ledger.db", file, bucket)
    assert cli.main(["restore", archive, *alone]) == 0, capsys.readouterr().err
    assert look_at_mlflow(file, tmp_path / "c") == tracked


def test_a_bucket_that_lost_a_file_of_the_backup_restores_nothing(
    tmp_path: Path, s3: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    home, archive = tmp_path / "home", f"s3://bucket/{tmp_path.name}-lost/archive"
    make_home(home)
    assert cli.main(["backup", archive, f"paths.root={home}"]) == 0
    gone = next(name for name in remote.names(archive) if name.startswith("home/"))
    remote.delete(f"{archive}/{gone}")
    capsys.readouterr()
    assert cli.main(["restore", archive, f"paths.root={tmp_path}/other"]) == 2
    assert "is damaged; missing or changed: " in capsys.readouterr().err
    assert not list((tmp_path / "other").glob("*"))
