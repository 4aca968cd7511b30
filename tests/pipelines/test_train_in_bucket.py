"""Runs whose home is a bucket, with real processes: killed, moved to another machine, overtaken, cut off."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.files import file_sha256
from dragoman.model.runs import journal, paths
from dragoman.model.storage import remote
from dragoman.model.storage.mirror import remote_of
from dragoman.pipelines.training import snapshots
from tests.pipelines.processes import reached, wait_for
from tests.s3_server import Proxy
from tests.warm import Command

SETTINGS = [
    "corpus=everyday",
    "corpus.pairs=300",
    "tokenizer=characters",
    "model.width=8",
    "model.heads=2",
    "model.feed_forward=8",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "loader.batch_tokens=256",
    "train.precision=fp32",
    "train.max_steps=60",
    "train.checkpoint_every=10",
    "train.evaluate_every=30",
    "train.average_last=2",
    "decode.beam=1",
    "decode.max_ratio=0.5",
    "engine=torch",
    "decode.length_penalty=1.0",
    "evaluate.sentences=2",
    "evaluate.samples=0",
    "registry.register=false",
    "tracking.offline=true",
    "tracking.system_metrics=false",
    "cluster.backend=local",
]
HOME = "s3://bucket/home"


class Machine:
    """A machine: a cache of its own, and nothing shared with others but the bucket."""

    def __init__(self, folder: Path, s3: Proxy) -> None:
        self.cache, self.s3 = folder, s3

    def start(self, *words: str, home: str = HOME) -> Command:
        """A verb as a user starts it."""
        place = {"DRAGOMAN_HOME": home, "DRAGOMAN_CACHE": str(self.cache), "OMP_NUM_THREADS": "1"}
        return Command(words, {**os.environ, **place})

    def call(self, *words: str, home: str = HOME, code: int = 0) -> str:
        process = self.start(*words, home=home)
        out, _ = process.communicate(timeout=240)
        assert process.returncode == code, out
        assert self.s3.environment["AWS_SECRET_ACCESS_KEY"] not in out
        return out

    def train(self, name: str, *words: str) -> Command:
        return self.start("train", *SETTINGS, f"name={name}", *words)

    def run(self, name: str) -> Path:
        return self.cache / "dragoman-mirror" / "s3" / "bucket" / "home" / "runs" / name

    def wait_for_step(self, name: str, step: int, process: Command) -> None:
        wait_for(reached(self.run(name), step), process)


def wait_for_checkpoint(run: Path, process: Command | subprocess.Popen[str]) -> None:
    """Until a checkpoint is in the bucket: it is sent beside the loop, which does not wait for it."""
    elsewhere = remote_of(run)
    assert elsewhere is not None
    wait_for(lambda: any("checkpoints/" in file for file in snapshots.newest(elsewhere).files), process)


def facts(run: str) -> dict[str, Any]:
    """What a run's bundle in the bucket says of itself."""
    found: dict[str, Any] = json.loads(remote.read(f"{HOME}/runs/{run}/bundle/config.json"))
    return found


def assert_same_run(name: str, machine: Machine, undisturbed: Path) -> None:
    """The same batches in the same order, and the same weights, as the run that nothing happened to."""
    mine, theirs = (
        [(line["step"], line["batch"], line["loss"]) for line in journal.lines(run / paths.STEPS) if "batch" in line]
        for run in (machine.run(name), undisturbed)
    )
    assert mine == theirs
    weights = facts(name)["files"]["model.safetensors"]["sha256"]
    assert weights == file_sha256(undisturbed / "bundle" / "model.safetensors")


@pytest.fixture
def machine(s3: Proxy, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine", s3)


@pytest.fixture
def other(s3: Proxy, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "other", s3)


@pytest.fixture(scope="module")
def undisturbed(s3_process: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in a folder, and the same shards in the bucket."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_process.environment.items():
            patch.setenv(name, value)
        machine = Machine(tmp_path_factory.mktemp("machine"), s3_process)
        for home in (str(folder), HOME):
            machine.call("shard", *SETTINGS, home=home)
        machine.call("train", *SETTINGS, "name=undisturbed", home=str(folder))
    return folder / "runs" / "undisturbed"


@pytest.mark.long
def test_a_run_moves_to_another_machine(machine: Machine, other: Machine, undisturbed: Path) -> None:
    process = machine.train("moved")
    wait_for_checkpoint(machine.run("moved"), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    out = other.call("train", *SETTINGS, "name=moved")
    assert "goes on" in out or "is trained to its end" in out  # by how far it came before it was killed
    assert_same_run("moved", other, undisturbed)
    source = undisturbed.parents[1] / "line.txt"
    source.write_text("The dog sleeps.\n", encoding="utf-8")
    words = [f"input={source}", "decode.beam=1"]
    there = other.call("translate", f"bundle={HOME}/runs/moved/bundle", *words).splitlines()[-1]
    assert there == other.call("translate", f"bundle={undisturbed}/bundle", *words).splitlines()[-1]
    assert "manifest_hash" in other.call("inspect", f"{HOME}/runs/moved/bundle")
    evaluated = machine.call("evaluate", *SETTINGS, "name=moved", f"bundle={HOME}/runs/moved/bundle")
    assert "BLEU" in evaluated


@pytest.mark.long
def test_the_bucket_goes_away_in_the_middle(machine: Machine, undisturbed: Path, s3: Proxy) -> None:
    process = machine.train("cut-off")
    machine.wait_for_step("cut-off", 15, process)
    s3.fault("away", times=1e9)
    machine.wait_for_step("cut-off", 50, process)
    s3.faults.clear()
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0, out
    assert_same_run("cut-off", machine, undisturbed)


@pytest.mark.long
def test_a_paused_training_that_wakes_up_publishes_nothing(
    machine: Machine, other: Machine, undisturbed: Path, s3: Proxy
) -> None:
    process = machine.train("paused")
    machine.wait_for_step("paused", 15, process)
    process.send_signal(signal.SIGSTOP)
    other.call("train", *SETTINGS, "name=paused")
    assert_same_run("paused", other, undisturbed)
    before = facts("paused")
    s3.requests.clear()
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 1 and "was replaced by attempt" in out, out
    assert facts("paused") == before
    sent = [request.rpartition("/runs/paused/")[2] for request in s3.requests if request.startswith("PUT")]
    commits = [name for name in sent if name.startswith("snapshots/")]
    assert len(set(commits)) <= 1, "one snapshot that is refused, perhaps asked twice"
    assert all(name.startswith(("objects/", "snapshots/")) or name == "head.json" for name in sent)
