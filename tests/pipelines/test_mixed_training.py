"""A training on a mix, from its shards to its bundle: refused early, exact after a stop, traced, scored by part."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from conf import compose
from model.bundles.translation import load_bundle
from pipelines import entries
from pipelines.config import Config
from pipelines.shard import shard
from pipelines.tasks.launch import train
from tests.pipelines.conftest import Make
from tests.pipelines.corpus.test_mixed import mix

pytestmark = pytest.mark.usefixtures("small_blocks")
STAGES = "loader.mix.stages=[{weights: {bt: 3, fr: 1}, until: {fr: 0.5}}, {weights: {clean: 1, fr: 1}}]"
MODIFIERS = ["loader.modifiers.typos=0.2", "loader.modifiers.upper_case=0.1"]
TINY = [
    "model=transformer_tiny", "model.width=16", "model.heads=2", "model.feed_forward=16", "model.encoder_layers=1",
    "model.decoder_layers=1", "loader.batch_tokens=512", "train.optimizer.schedule=constant", "train.evaluate_every=30",
    "train.checkpoint_every=10", "train.average_last=1", "train.precision=fp32", "decode.beam=1",
    "decode.length_penalty=1", "decode.max_extra=5", "cluster.backend=local", "cluster.device=cpu",
    "registry.register=false", "tracking.offline=true", "tracking.system_metrics=false",
]  # fmt: skip


@pytest.fixture
def shards(make: Make, tmp_path: Path) -> Path:
    return shard(mix(make, tmp_path)).directory


def settings(shards: Path, name: str, steps: int, *words: str) -> Config:
    where = [f"paths.shards={shards}", f"paths.root={shards.parent}", "pair=en-mul", f"name={name}"]
    return compose.typed(
        Config, compose.values([*TINY, STAGES, *MODIFIERS, *where, f"train.max_steps={steps}", *words])
    )


def test_a_stopped_training_ends_with_the_same_weights_and_is_traced(
    shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = settings(shards, "whole", 30)
    train(whole, say=str)
    for steps in (10, 30):
        train(settings(shards, "twice", steps), say=str)
    one, two = (load_file(shards.parent / f"runs/{name}/bundle/model.safetensors") for name in ("whole", "twice"))
    assert all(torch.equal(one[key], two[key]) for key in one)

    assert entries.main(["verify", str(whole.run_dir), f"paths.shards={shards}", "verify.format=json"]) == 0
    checks = {check["what"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["steps"]["result"] == checks["parts"]["result"] == "same"
    assert checks["parts"]["detail"].startswith("clean ")
    assert all(f"{name} 0 records" not in checks["parts"]["detail"] for name in ("clean", "bt", "fr"))

    bundle = load_bundle(whole.run_dir / "bundle")
    assert bundle.prefixes == {("en", "de"): "<2de> ", ("en", "fr"): "<2fr> "}
    record = json.loads((whole.run_dir / "evaluation.test.json").read_text())
    assert record["parts"]["clean"]["sentences"] == 60  # the only part with a test set
    assert "fr" not in record["parts"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("loader.mix.weights={clean: 0}", "loader.mix.weights.clean=0"),
        ("loader.mix.weights={clean: -1}", "loader.mix.weights.clean=-1"),
        ("loader.mix.weights={web: 1}", "web"),
        ("loader.mix.stages=[{until: {web: 1}}, {}]", "web"),
        ("loader.mix.stages=[{}, {}]", "never ends"),
        ("loader.mix.speed=1", "speed"),
        ("loader.modifiers.typos=2", "loader.modifiers.typos=2"),
        ("loader.modifiers.lower_case=0.1", "lower_case"),
        ("loader.both_directions=1", "both_directions=1: not on a mix"),
    ],
)
def test_what_cannot_be_is_refused_before_a_run_exists(
    shards: Path, word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[Any] = [*TINY, f"paths.shards={shards}", f"paths.root={shards.parent}", "pair=en-mul", "name=no", word]
    assert entries.main(["train", *words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.strip().splitlines()) <= 2
    assert not (shards.parent / "runs" / "no").exists()
