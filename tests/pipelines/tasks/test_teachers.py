"""`train.teachers`: what they say is what they hold likely, and a run learns it, keeps it and goes on with it."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.model.bundles.directory import bundle_hash, read_facts
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.runs.paths import TAUGHT
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.pipelines import train
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.tasks.teachers import KEPT, TaughtLoader
from tests.pipelines.tasks.test_warm_start import config, corpus, same, tags, weights


@pytest.fixture(scope="module")
def taught(home: Path) -> Path:
    """The folder of a run that two have taught."""
    assert train.task(config(home, "name=other", "seed=2", "train.optimizer.lr=0.01")) == 0
    assert train.task(config(home, "name=student", "train.teachers=[first,other]", "seed=3")) == 0
    return home / "artifacts" / "runs" / "student"


def test_it_keeps_the_mean_of_what_the_teachers_hold_likely(home: Path, taught: Path) -> None:
    settings = config(home)
    networks = [load_bundle(taught.parent / name / "bundle").network for name in ("first", "other")]
    loader = LaneLoader(ShardReader(settings.shard_dir, "train"), LoaderConfig(lanes=1, batch_tokens=200))
    learned = TaughtLoader(loader, taught / TAUGHT, 0.25)
    for _ in range(3):
        (batch,) = learned.step()
        assert isinstance(batch, TranslationBatch) and batch.taught is not None
        assert batch.taught.part == 0.25
        real = batch.target_out != 0
        with torch.inference_mode():
            mean = sum(network.logits(network(batch)[real]).softmax(-1) for network in networks) / 2
        best = mean.topk(KEPT).values
        named = mean.gather(1, batch.taught.tokens)
        torch.testing.assert_close(named, best, rtol=1e-3, atol=1e-5)  # where two are level, either may be named
        torch.testing.assert_close(batch.taught.shares, best / best.sum(1, keepdim=True), rtol=1e-2, atol=1e-3)
    learned.close()


def test_the_run_and_its_bundle_say_who_taught_it(home: Path, taught: Path) -> None:
    told = read_facts(taught / "bundle")["teachers"]
    assert told["references"] == ["first", "other"] and told["part"] == 0.5
    assert tags(taught)["train.teachers"] == f"first, other (digest {told['digest'][:12]})"
    assert "teachers" not in read_facts(taught.parent / "first" / "bundle")
    assert train.task(config(home, "name=alone", "seed=3")) == 0
    assert not same(weights(home, "student"), weights(home, "alone"))


def test_none_of_it_is_as_if_there_were_no_teachers(home: Path) -> None:
    assert train.task(config(home, "name=unmoved", "train.teachers=[first]", "train.loss.distillation=0")) == 0
    ours, theirs = weights(home, "unmoved"), weights(home, "first")
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in ours)
    digest = read_facts(home / "artifacts" / "runs" / "unmoved" / "bundle")["teachers"]["digest"]
    assert digest == bundle_hash(home / "artifacts" / "runs" / "first" / "bundle")


def test_a_run_that_goes_on_needs_its_teachers_no_more(home: Path) -> None:
    runs = home / "artifacts" / "runs"
    shutil.copytree(runs / "first", runs / "teacher")
    whole, cut = ["name=whole", "train.teachers=[first]"], ["name=cut", "train.teachers=[teacher]"]
    limits = ["train.max_steps=6", "train.schedule_steps=6"]
    assert train.task(config(home, *whole, *limits)) == 0
    assert train.task(config(home, *cut, *limits, "train.max_steps=4")) == 0
    said = load_file(runs / "cut" / TAUGHT)
    shutil.rmtree(runs / "teacher")
    assert train.task(config(home, *cut, *limits)) == 0
    assert same(load_file(runs / "cut" / TAUGHT), said)
    assert same(weights(home, "cut"), weights(home, "whole"))
    with pytest.raises(UserError, match="teachers was"):
        launch.check(config(home, "name=cut", "train.teachers=[first]"))


def test_nobody_is_asked_about_pairs_that_are_too_long_to_train_on(home: Path) -> None:
    short = ["name=short", "train.teachers=[first]", "loader.max_length=12"]
    assert train.task(config(home, *short)) == 0
    lengths = load_file(home / "artifacts" / "runs" / "short" / TAUGHT)["lengths"]
    assert lengths.max() <= 12 and 0 < (lengths == 0).sum() < len(lengths)


def test_teachers_of_another_tokenizer_are_refused(home: Path) -> None:
    other = ["tokenizer.vocabulary=80", f"paths.shards={home}/other"]
    shard(config(home, *corpus(home, "toy", 1), *other))
    with pytest.raises(UserError, match="their tokenizer is not that of the shards"):
        train.task(config(home, "name=refused", "train.teachers=[first]", *other))
