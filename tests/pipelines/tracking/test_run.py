import json
import math
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.runs.spool import Mark, Spool
from dragoman.pipelines.tracking import plots, server
from dragoman.pipelines.tracking.run import BackgroundSender, TrackedRun
from dragoman.pipelines.tracking.sender import Sender
from dragoman.pipelines.tracking.server import connect
from dragoman.pipelines.tracking.settings import TrackingConfig
from tests.warm import CONTEXT

ROOT = Path(__file__).resolve().parents[3]


def steps(client: Any, run_id: str | None, key: str) -> list[int]:
    return [metric.step for metric in client.get_metric_history(run_id, key)]


def test_everything_logged_arrives(tracking: TrackingConfig, tmp_path: Path) -> None:
    picture = plots.curves({"loss": [(1, 2.0), (2, 1.0)]}, "test")
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        run.params({"model": {"width": 64, "heads": 4}, "note": "x" * 7000})
        run.tags({"kind": "train", "manifest_hash": "ab" * 32})
        run.dataset("corpus-train", "ab" * 32, {"path": "shards"}, profile={"records": 3})
        run.metrics(1, {"loss": 2.0, "odd@key": 1.0, "odd#key": 2.0, "bad": math.nan})
        run.text("seed: 1\n", "config.yaml")
        run.table(["source", "translation"], [["a", "ä"]], "samples.json")
        run.figure(picture, "pictures/curves.png")
        (tmp_path / "notes.txt").write_text("here")
        run.artifact(tmp_path / "notes.txt", "notes", keep=True)
        (tmp_path / "notes.txt").unlink()
    client = connect(tracking)
    found = client.get_run(run.run_id)
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "a"
    assert found.data.params["model.width"] == "64"
    assert len(found.data.params["note"]) == 6000
    assert found.data.params["note"].endswith("... (7000 characters)")
    assert found.data.tags["manifest_hash"] == "ab" * 32
    assert {"train/loss": 2.0, "train/odd_key": 1.0, "train/odd_key_2": 2.0}.items() <= found.data.metrics.items()
    assert math.isnan(client.get_metric_history(run.run_id, "train/bad")[0].value)
    dataset = found.inputs.dataset_inputs[0].dataset
    assert (dataset.name, dataset.digest) == ("corpus-train", ("ab" * 32)[:36])
    assert json.loads(dataset.source)["digest"] == "ab" * 32
    assert sorted(entry.path for entry in client.list_artifacts(run.run_id)) == [
        "config.yaml",
        "notes",
        "pictures",
        "samples.json",
    ]
    assert client.load_table(found.info.experiment_id, "samples.json", [run.run_id])["translation"].tolist() == ["ä"]


def test_a_resumed_run_is_the_same_run_and_logs_no_step_twice(tracking: TrackingConfig, tmp_path: Path) -> None:
    first = TrackedRun(tracking, tmp_path / "runs/a", "a")
    for step in range(1, 31):
        first.metrics(step, {"loss": 1.0 / step})
    first.metrics(30, {"valid_bleu": 10.0})
    first.finish("FAILED")
    again = TrackedRun(tracking, tmp_path / "runs/a", "a")
    for step in range(20, 41):  # back at the checkpoint of step 20
        again.metrics(step, {"loss": 9.0})
    again.metrics(30, {"valid_bleu": 11.0})
    again.metrics(40, {"valid_bleu": 12.0})
    again.finish()
    client = connect(tracking)
    assert again.run_id == first.run_id
    assert steps(client, again.run_id, "train/loss") == list(range(1, 41))
    assert steps(client, again.run_id, "valid/bleu") == [30, 40]
    assert client.get_run(again.run_id).info.status == "FINISHED"


def test_a_parameter_that_changed_on_resume_becomes_a_tag(tracking: TrackingConfig, tmp_path: Path) -> None:
    for steps_wanted in (100, 200):
        with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
            run.params({"train": {"max_steps": steps_wanted}, "seed": 1})
    data = connect(tracking).get_run(run.run_id).data
    assert data.params["train.max_steps"] == "100"
    assert data.tags["changed.train.max_steps"] == "200"
    assert "changed.seed" not in data.tags


@pytest.mark.parametrize(
    ("error", "cause", "status"),
    [(RuntimeError, None, "FAILED"), (KeyboardInterrupt, None, "KILLED"), (ImportError, KeyboardInterrupt(), "KILLED")],
    ids=["error", "interrupt", "interrupted-import"],
)
def test_the_way_a_run_ends_is_its_status(
    tracking: TrackingConfig,
    tmp_path: Path,
    error: type[BaseException],
    cause: BaseException | None,
    status: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.pipelines.tracking.run.INTERRUPTED_FLUSH", 60.0)
    with pytest.raises(error), TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        raise error from cause
    assert connect(tracking).get_run(run.run_id).info.status == status


def test_whoever_interrupts_a_run_does_not_wait_for_a_server(
    tracking: TrackingConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(BackgroundSender, "flush", lambda _, timeout: bool(waited.append(timeout)))
    with pytest.raises(KeyboardInterrupt), TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        raise KeyboardInterrupt
    assert sum(waited) == 10.0
    assert [record.fields["status"] for record in run.spool.records()] == ["RUNNING", "KILLED"]  # for `dragoman sync`


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        (None, "writing the last records into MLflow's database"),
        ("http://127.0.0.1:9", "waiting for MLflow at http://127.0.0.1:9"),
    ],
    ids=["database", "server"],
)
def test_a_long_end_says_what_it_waits_for(
    uri: str | None,
    said: str,
    tracking: TrackingConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(BackgroundSender, "flush", lambda *_: False)
    caplog.set_level("INFO")
    TrackedRun(replace(tracking, uri=uri or tracking.uri), tmp_path / "runs/a", "a", system=False).finish()
    assert said in caplog.text


def test_leaving_hands_the_run_over_without_ending_it(tracking: TrackingConfig, tmp_path: Path) -> None:
    driver = TrackedRun(tracking, tmp_path / "runs/a", "a")
    worker = TrackedRun(tracking, tmp_path / "runs/a", "a")
    worker.metrics(1, {"loss": 1.0})
    worker.leave()
    driver.flush()
    assert connect(tracking).get_run(driver.run_id).info.status == "RUNNING"
    driver.metrics(1, {"test/bleu": 30.0})
    driver.finish()
    found = connect(tracking).get_run(driver.run_id)
    assert found.data.metrics == {"train/loss": 1.0, "test/bleu": 30.0}
    assert found.info.status == "FINISHED"


def test_a_missing_artifact_is_set_aside_and_the_rest_arrives(tracking: TrackingConfig, tmp_path: Path) -> None:
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        run.artifact(tmp_path / "never.txt")
        run.metrics(1, {"loss": 1.0})
    assert connect(tracking).get_run(run.run_id).data.metrics == {"train/loss": 1.0}
    refused = json.loads((run.spool.folder / "refused.jsonl").read_text())
    assert refused["kind"] == "artifact"
    assert "never.txt" in refused["reason"]


def test_a_refused_record_does_not_hold_up_its_batch(tracking: TrackingConfig, tmp_path: Path) -> None:
    run = TrackedRun(replace(tracking, offline=True), tmp_path / "runs/a", "a")
    run.spool.append("metrics", step=1, values={"loss": 1.0})
    run.spool.append("metrics", step=2, values={"bad@name": 1.0})  # what `metrics` would have cleaned
    run.spool.append("metrics", step=3, values={"loss": 0.5})
    run.finish()
    assert Sender(run.spool, tracking, "a").send()
    client = connect(tracking)
    assert steps(client, run.spool.mark().run_id, "train/loss") == [1, 3]
    assert "bad@name" in (run.spool.folder / "refused.jsonl").read_text()


def test_runs_that_enter_the_same_dataset_at_once_all_have_it(
    tracking: TrackingConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow looks for a dataset and then inserts it: of two that do so at once the database refuses one."""
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import BAD_REQUEST
    from mlflow.tracking import MlflowClient

    insert, tries = MlflowClient.log_inputs, []

    def second(client: Any, *given: Any, **named: Any) -> None:
        tries.append(given)
        if len(tries) == 1:
            raise MlflowException("(sqlite3.IntegrityError) UNIQUE constraint failed: datasets.name", BAD_REQUEST)
        insert(client, *given, **named)

    monkeypatch.setattr(MlflowClient, "log_inputs", second)
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        run.dataset("corpus", "ab" * 32, {"source": "shards"})
    assert len(tries) == 2
    assert len(connect(tracking).get_run(run.run_id).inputs.dataset_inputs) == 1
    assert not (run.spool.folder / "refused.jsonl").exists()


def test_records_sent_but_not_marked_are_not_there_twice(tracking: TrackingConfig, tmp_path: Path) -> None:
    """Killed between the server's answer and the mark: everything is sent again and is taken as the same."""
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        run.dataset("corpus", "ab" * 32, {"source": "shards"})
        run.table(["a"], [[1]], "table.json")
        for step in range(50):
            run.metrics(step, {"loss": float(step), "bad": math.nan})
    mark = run.spool.mark()
    run.spool.set_mark(Mark(0, mark.server, mark.run_id))
    assert Sender(run.spool, tracking, "a").send()
    client = connect(tracking)
    assert steps(client, run.run_id, "train/loss") == list(range(50))
    assert steps(client, run.run_id, "train/bad") == list(range(50))
    assert len(client.get_run(run.run_id).inputs.dataset_inputs) == 1


def test_a_run_created_but_not_noted_down_is_found_again(tracking: TrackingConfig, tmp_path: Path) -> None:
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        run.metrics(1, {"loss": 1.0})
    (run.run_dir / "mlflow.json").unlink()
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as again:
        again.metrics(2, {"loss": 0.5})
    client = connect(tracking)
    runs = client.search_runs([client.get_experiment_by_name("dragoman").experiment_id])
    assert len(runs) == 1
    assert steps(client, runs[0].info.run_id, "train/loss") == [1, 2]


def test_a_run_deleted_in_mlflow_keeps_its_records(tracking: TrackingConfig, tmp_path: Path) -> None:
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        run.metrics(1, {"loss": 1.0})
    client = connect(tracking)
    client.delete_run(run.run_id)
    again = TrackedRun(tracking, tmp_path / "runs/a", "a")
    again.metrics(2, {"loss": 0.5})
    assert not again.finish()
    client.restore_run(run.run_id)
    assert Sender(again.spool, tracking, "a").send()
    assert steps(client, run.run_id, "train/loss") == [1, 2]


def test_a_new_server_gets_the_whole_run(tracking: TrackingConfig, tmp_path: Path) -> None:
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as run:
        run.metrics(1, {"loss": 1.0})
    elsewhere = tmp_path / "elsewhere.db"
    server.make_database(elsewhere)
    other = replace(tracking, uri=f"sqlite:///{elsewhere}")
    with TrackedRun(other, tmp_path / "runs/a", "a") as again:
        again.metrics(2, {"loss": 0.5})
    assert steps(connect(other), again.run_id, "train/loss") == [1, 2]
    assert again.run_id != run.run_id


def log_without_end(uri: str, directory: Path) -> None:
    config = TrackingConfig(uri=uri, artifacts=None, flush_seconds=0.01, system_metrics=False)
    run, step = TrackedRun(config, directory, "a"), 0
    while True:
        step += 1
        run.metrics(step, {"loss": 1.0 / step})
        time.sleep(0.002)


def test_a_killed_process_is_resumed_into_the_same_run(tracking: TrackingConfig, tmp_path: Path) -> None:
    directory = tmp_path / "runs/a"
    child = CONTEXT.Process(target=log_without_end, args=(tracking.uri, directory), daemon=True)
    child.start()
    spool = Spool(directory)
    try:
        until = time.monotonic() + 120
        while spool.mark().offset < 5_000 and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        child.kill()
        child.join()
    reached = max(spool.last_steps().values())
    with TrackedRun(tracking, directory, "a") as run:
        for step in range(reached // 2, reached + 10):
            run.metrics(step, {"loss": 0.0})
    client = connect(tracking)
    assert steps(client, run.run_id, "train/loss") == list(range(1, reached + 10))
    assert client.get_run(run.run_id).info.status == "FINISHED"


def test_a_server_that_was_never_there_costs_nothing_but_a_message(
    tracking: TrackingConfig, tmp_path: Path, free_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    dead = replace(tracking, uri=f"http://user:geheim@127.0.0.1:{free_port}")
    run = TrackedRun(dead, tmp_path / "runs/a", "a")
    for step in range(10):
        run.metrics(step, {"loss": 1.0})
    assert not run.finish()
    assert run.run_id is None
    assert "dragoman sync name=a" in caplog.text
    assert "geheim" not in caplog.text
    assert "geheim" not in "".join(p.read_text() for p in run.run_dir.rglob("*") if p.is_file())
    assert Sender(run.spool, tracking, "a").send()
    assert steps(connect(tracking), run.spool.mark().run_id, "train/loss") == list(range(10))


def test_a_hanging_server_holds_up_neither_the_steps_nor_the_end(tracking: TrackingConfig, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, never answers
        hanging = replace(tracking, uri=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=30.0, flush_timeout=0.3)
        run = TrackedRun(hanging, tmp_path / "runs/a", "a")
        for step in range(1000):
            run.metrics(step, {"loss": 1.0})
        assert not run.finish()
        assert len(list(run.spool.records())) == 1002


def test_mlflow_samples_the_machine_and_goes_on_after_a_resume(tracking: TrackingConfig, tmp_path: Path) -> None:
    config = replace(tracking, system_metrics=True, system_seconds=0.05)
    key, client = "system/cpu_utilization_percentage", connect(tracking)
    seen: list[int] = []
    for _ in range(2):
        with TrackedRun(config, tmp_path / "runs/a", "a") as run:
            until, before = time.monotonic() + 60, len(seen)
            while len(seen) < before + 2 and time.monotonic() < until:
                time.sleep(0.05)
                seen = [point.step for point in client.get_metric_history(run.run_id, key)] if run.run_id else []
            assert len(seen) >= before + 2
    assert sorted(seen) == list(range(len(seen)))


def test_an_address_that_is_none_is_the_users_mistake(tracking: TrackingConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tracking\.uri: 'mlflow\.db' is not an address"):
        TrackedRun(replace(tracking, uri="mlflow.db"), tmp_path, "a")


def test_an_artifact_path_cannot_leave_the_run(tracking: TrackingConfig, tmp_path: Path) -> None:
    with TrackedRun(replace(tracking, offline=True), tmp_path / "runs/a", "a") as run:
        for path in ("../x.txt", "/x.txt"):
            with pytest.raises(UserError, match="artifact path"):
                run.text("x", path)
