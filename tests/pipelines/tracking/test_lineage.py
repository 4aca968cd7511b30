"""From a model version a person reaches its run, its configuration, its shards and their sources."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.conf import compose
from dragoman.model.runs.spool import Spool
from dragoman.model.shards.manifest import LENGTH_BOUNDS, Manifest, Split, manifest_hash, write_manifest
from dragoman.pipelines.tracking.author import user
from dragoman.pipelines.tracking.descriptions import describe_scores, with_lines
from dragoman.pipelines.tracking.lineage import git_commit, log_training, shown_values, without_secrets
from dragoman.pipelines.tracking.plots import curves
from dragoman.pipelines.tracking.registry import Registry, register_bundle
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import connect
from dragoman.pipelines.tracking.settings import RegistryConfig, TrackingConfig
from dragoman.pipelines.tracking.sharding import record_sharding

HASH = "cd" * 32
CONFIG = {"name": "a", "seed": 1, "model": {"width": 64}, "paths": {"root": "here"}, "tracking": {"uri": "secret"}}


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    lengths = [5] * (len(LENGTH_BOUNDS) + 1)
    split = Split(70, 900, 1000, lengths, lengths, [])
    sources = [{"name": "train.en", "sha256": "ef" * 32, "bytes": 123, "lines": 80}]
    manifest = Manifest(
        "demo", ["en", "de"], {"files": []}, "<u2", {"train": split}, sources=sources, dropped={"train": {"blank": 10}}
    )
    manifest.config = {"tokenizer": {"same_as": "ba" * 32}}
    (tmp_path / "shards").mkdir()
    write_manifest(tmp_path / "shards", manifest)
    return tmp_path / "shards"


def test_a_description_grows_by_what_is_new_and_keeps_what_a_person_wrote() -> None:
    assert with_lines("mine\n\na", "a\n\nb") == "mine\n\na\n\nb"
    assert with_lines("", "a") == "a"
    assert with_lines("a\n\nb", "**Score**: 1\n\n- x") == "a\n\n**Score**: 1\n\n- x\n\nb"
    assert with_lines("", "**Score**: 1") == "**Score**: 1"


def test_a_long_text_leaves_a_description_short() -> None:
    assert describe_scores(7, {"test/bleu": 2.5}, [("one", "der " * 200)]).endswith(f"- one → {'der ' * 24}der…")


def test_the_whole_way_back_from_a_version(
    tracking: TrackingConfig, tmp_path: Path, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_JOB", "j1-7")
    monkeypatch.setenv("DRAGOMAN_OWNER", "anna")
    monkeypatch.setenv("DRAGOMAN_SERVICE", "http://jobs.example:8300/")
    digest = manifest_hash(shards)
    for _ in range(2):  # the second time nothing is new
        record_sharding(tracking, tmp_path / "runs", CONFIG, HASH, shards)
    sharding = Spool(tmp_path / f"runs/shard-demo-{digest[:12]}")
    bundle = tmp_path / "runs/a/bundle"
    bundle.mkdir(parents=True)
    init = {"reference": "models:/base/3", "digest": "ab" * 32, "run": {"name": "broad", "id": None}}
    facts = {"pair": "en-de", "manifest_hash": digest, "scores": {"test": {"bleu": 30.0}}, "init": init}
    facts |= {"lora": {"rank": 8, "alpha": 16.0, "targets": ["attention"]}, "tokenizer_same_as": "ba" * 32}
    (bundle / "config.json").write_text(json.dumps(facts))
    with TrackedRun(tracking, tmp_path / "runs/a", "a") as training:
        log_training(training, {**CONFIG, "tracking": {"uri": "secret", "parent": "ab" * 16}}, HASH, shards)
        training.metrics(1, {"loss": 2.0, "lr": 0.1})
        training.figure(curves(training.history(), "a"), "curves.png")
        training.table(["source", "translation"], [["a dog", "ein Hund"]], "samples.json")
        register_bundle(tracking, RegistryConfig(name="demo"), training, bundle)

    registry = Registry(tracking, RegistryConfig(name="demo"))
    client, version = registry.client, registry.newest()
    described = client.get_model_version("demo", version.number).description
    for word in (digest[:12], HASH[:12], version.run_id):
        assert word in described
    runs = f"#/experiments/{client.get_run(version.run_id).info.experiment_id}/runs"
    view = "?workflowType=machine_learning"
    made = client.get_run(version.run_id).data.tags["shard_run_id"]
    shardings = f"#/experiments/{client.get_run(made).info.experiment_id}/runs"
    assert f"[a]({runs}/{version.run_id}{view})" in described
    assert f"[config.yaml]({runs}/{version.run_id}/artifacts/config.yaml{view})" in described
    assert f"[the run that made them]({shardings}/{made}{view})" in described
    assert f"[their sources]({shardings}/{made}/artifacts/shards/sources.json{view})" in described
    job = "**Job** [j1-7](http://jobs.example:8300/jobs/j1-7)"
    assert job in described.split("\n\n") and "**Author** anna" in described.split("\n\n")
    assert version.tags["author"] == "anna" and client.get_registered_model("demo").tags["dragoman.owner"] == "anna"
    assert {client.get_run(one).data.tags["mlflow.user"] for one in (version.run_id, made)} == {"anna"}
    run = client.get_run(version.run_id)
    said = run.data.tags["mlflow.note.content"].split("\n\n")
    assert said == [
        f"Training, demo en-de; shards `{digest[:12]}`",
        "**Command** `dragoman train`",
        job,
        f"**Shards** [the run that made them]({shardings}/{made}{view})",
        f"**Model** [demo version {version.number}](#/models/demo/versions/{version.number}{view})",
    ]
    begun = {
        "train.init_from": "models:/base/3 (run broad, bundle abababababab)",
        "train.lora": "rank 8, alpha 16, attention",
        "tokenizer.same_as": "a tokenizer with the digest babababababa",
    }
    assert {key: version.tags[key] for key in begun} == begun
    assert run.data.tags["tokenizer.same_as"] == begun["tokenizer.same_as"]
    comes = next(line for line in described.split("\n\n") if line.startswith("**Comes from** "))
    assert "`train.init_from`: models:/base/3 (run broad, bundle abababababab); `train.lora`: rank 8" in comes
    assert "`kind`" in client.get_experiment(run.info.experiment_id).tags["mlflow.note.content"]
    assert run.info.run_id == training.run_id
    assert run.data.tags["kind"] == "train"
    assert run.data.tags["mlflow.parentRunId"] == "ab" * 16
    shown = {key: run.data.tags[f"mlflow.{key}"] for key in ("user", "source.name", "source.type")}
    assert shown == {"user": user(), "source.name": "dragoman train", "source.type": "LOCAL"}
    assert run.data.tags["config_hash"] == HASH
    assert run.data.tags["manifest_hash"] == digest
    assert {entry.path for entry in client.list_artifacts(version.run_id)} >= {
        *("config.yaml", "curves.png", "samples.json", "shards")
    }
    assert run.data.params["model.width"] == "64"
    assert not [key for key in run.data.params if key.startswith(("tracking", "paths"))]
    assert {entry.dataset.digest for entry in run.inputs.dataset_inputs} == {digest[:36]}
    origin = client.get_run(run.data.tags["shard_run_id"])
    assert origin.info.run_id == sharding.mark().run_id
    assert origin.data.tags["kind"] == "shard"
    named = {one.name: one.experiment_id for one in client.search_experiments()}
    assert origin.info.experiment_id == named[f"{tracking.experiment}/shards"]
    assert run.info.experiment_id == named[tracking.experiment]
    assert origin.data.tags["used_by.a"] == training.run_id
    assert origin.data.metrics["train/dropped/blank"] == 10
    assert {entry.path for entry in client.list_artifacts(origin.info.run_id, "shards")} == {
        *("shards/manifest.json", "shards/sources.json"),
        *("shards/lengths-train.png", "shards/dropped-train.png"),
    }
    assert origin.inputs.dataset_inputs[0].dataset.name == "train.en"


def test_a_run_below_another_owners_run_writes_nothing_to_it(
    tracking: TrackingConfig, tmp_path: Path, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_JOB", "j1-1")
    monkeypatch.setenv("DRAGOMAN_OWNER", "anna")
    with TrackedRun(tracking, tmp_path / "runs" / "sweep", "sweep") as parent:
        log_training(parent, CONFIG, HASH, shards)
    client = connect(tracking)
    before = client.get_run(str(parent.run_id)).to_dictionary()
    monkeypatch.setenv("DRAGOMAN_OWNER", "ben")
    with TrackedRun(tracking, tmp_path / "runs" / "trial", "trial") as trial:
        log_training(trial, {**CONFIG, "tracking": {"parent": parent.run_id}}, HASH, shards)
    tags = client.get_run(str(trial.run_id)).data.tags
    assert (tags["mlflow.parentRunId"], tags["mlflow.user"]) == (parent.run_id, "ben")
    assert client.get_run(str(parent.run_id)).to_dictionary() == before


def test_a_runs_parameters_are_what_it_is_known_by_and_what_was_set() -> None:
    composed = compose.values(["model=gpt_small", "train.max_steps=7", "train.optimizer.eps=1e-9", "model.width=64"])
    shown = shown_values({key: composed[key] for key in ("name", "seed", "model", "train", "tokenizer", "loader")})
    assert shown["name"] == "corpus-en-de-gpt_small" and shown["train.max_steps"] == "7"
    assert shown["model.width"] == "64" and shown["train.optimizer.lr"] == "0.0007"
    assert not shown.keys() & {"model.layers", "model.heads", "train.optimizer.eps", "loader.max_length"}
    assert len(shown) < 16


def test_no_secret_of_the_configuration_is_shown() -> None:
    config = {"tracking": {"uri": "http://me:geheim@host/x"}, "jobs": {"token": "geheim", "tokens": 3}, "n": ["//a@b"]}
    assert without_secrets(config) == {
        "tracking": {"uri": "http://***@host/x"},
        "jobs": {"token": "***", "tokens": 3},
        "n": ["//***@b"],
    }


def test_the_commit_is_that_of_the_repository_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert git_commit(folder) is None
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "--quiet"], [*who, "commit", "--quiet", "--allow-empty", "--message=one"]):
        assert git_commit(folder) is None, "a repository without a commit"
        subprocess.run(["git", *words], cwd=folder.parent, check=True)
    assert len(str(git_commit(folder))) == 40
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(folder) is None, "no git on this machine"


def test_the_experiment_opens_as_model_training(tracking: TrackingConfig, tmp_path: Path) -> None:
    client = connect(tracking)
    client.create_experiment("older")
    for experiment in (tracking.experiment, "older"):
        TrackedRun(replace(tracking, experiment=experiment), tmp_path / experiment, "a").finish()
        kind = client.get_experiment_by_name(experiment).tags["mlflow.experimentKind"]
        assert kind == "custom_model_development", experiment


def test_a_kind_that_somebody_chose_is_kept(tracking: TrackingConfig, tmp_path: Path) -> None:
    client = connect(tracking)
    client.create_experiment(tracking.experiment, tags={"mlflow.experimentKind": "finetuning"})
    TrackedRun(tracking, tmp_path / "a", "a").finish()
    assert client.get_experiment_by_name(tracking.experiment).tags["mlflow.experimentKind"] == "finetuning"
