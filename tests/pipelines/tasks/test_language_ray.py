"""A language model with carried states under real Ray: a worker is killed, the tree is killed, the run is the same."""

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.pipelines import entries
from tests.pipelines.processes import kill_tree, reached, start_verb, steps, wait_for
from tests.pipelines.ray_cluster import RayCluster

SETTINGS = [
    "corpus=text", "pair=en", "corpus.name=toy", "corpus.cut.valid=0.1", "corpus.cut.run=8", "tokenizer=characters",
    "model=rnnlm_lstm", "model.embedding=8", "model.width=24", "model.layers=1", "loader.batch_tokens=256",
    "loader.context_length=16", "train.precision=fp32", "train.max_steps=100", "train.checkpoint_every=10",
    "train.evaluate_every=100", "train.average_last=1", "train.loss.label_smoothing=0",
    "train.optimizer.warmup_steps=10", "evaluate.split=valid",
    "evaluate.sentences=20", "evaluate.samples=0", "registry.register=false", "tracking.offline=true",
]  # fmt: skip
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "some", "dogs", "that", "ran", "away"]
ALONE = "cluster.backend=local"


def here(verb: str, home: Path, *overrides: str) -> None:
    """The verb in this process, to its end."""
    assert entries.main([verb, *SETTINGS, f"corpus.train.file={home}/text.txt", ALONE, *overrides]) == 0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with shards of a text in it, for this process and those that it starts."""
    folder = tmp_path_factory.mktemp("home")
    rng = random.Random(1)
    lines = [" ".join(rng.choices(WORDS, k=12)) for _ in range(800)]
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(folder))
        here("shard", folder)
        yield folder


@pytest.mark.long
def test_killed_workers_and_killed_trees_change_nothing(
    home: Path, ray: RayCluster, caplog: pytest.LogCaptureFixture
) -> None:
    here("train", home, "name=undisturbed")
    run, disturbed = home / "runs" / "disturbed", ("name=disturbed", "cluster.workers=2")
    process = start_verb(home, "train", *SETTINGS, f"corpus.train.file={home}/text.txt", *disturbed, ray=ray)
    wait_for(reached(run, 25), process, 400)
    ray.workers()[0].kill()
    wait_for(reached(run, 55), process, 400)
    kill_tree(process, ray)
    caplog.set_level(logging.INFO)
    here("train", home, "name=disturbed")
    assert "goes on to step 100" in caplog.text
    ours, theirs = steps(run), steps(home / "runs" / "undisturbed")
    assert [(line["step"], line["batch"]) for line in ours] == [(line["step"], line["batch"]) for line in theirs]
    for mine, other in zip(ours[:55], theirs[:55], strict=True):
        assert mine["loss"] == pytest.approx(other["loss"], rel=1e-3)
    assert ours[-1]["loss"] == pytest.approx(theirs[-1]["loss"], rel=0.02)
