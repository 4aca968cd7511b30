"""`dragoman shard`, `train`, `evaluate` and `promote` of language models, whole but small, in this process."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman.conf import compose
from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.errors import UserError
from dragoman.pipelines import entries, evaluate, train
from dragoman.pipelines.config import Config
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.tasks.language import judge
from dragoman.pipelines.tracking.registry import Version
from dragoman.pipelines.tracking.settings import PromoteConfig
from dragoman.services.commands.inspect import contents
from tests.pipelines.training.test_loop import flip_last_bit

PEOPLE, DEEDS = ("anna", "ben", "carl", "dora"), ("sees", "hears", "likes", "calls")
BEASTS = ("cat", "dog", "bird", "fish", "horse", "cow")
LINES = [
    f"{who} {does} the {what} , so the {what} {does} {who} ." for who in PEOPLE for does in DEEDS for what in BEASTS
]
SMALL = ["model.width=16", "model.heads=2", "model.feed_forward=16", "model.layers=1"]
MODELS = {
    "rnnlm_lstm": ["model.embedding=8", "model.width=16", "model.layers=1"],
    "gpt_tiny": [*SMALL, "model.max_positions=32"],
    "bert_tiny": [*SMALL, "model.max_positions=64", "loader.max_length=64"],
}


def config(home: Path, *overrides: str) -> Config:
    values = compose.values(
        [
            "corpus=text", "pair=en", "corpus.name=toy", f"corpus.train.file={home}/text.txt", "corpus.cut.valid=0.2",
            "corpus.cut.run=4", "corpus.blank=keep", "tokenizer=characters", f"paths.root={home}/artifacts",
            "loader.batch_tokens=128", "loader.context_length=32", "train.max_steps=4", "train.evaluate_every=4",
            "train.checkpoint_every=2", "train.optimizer.warmup_steps=1", "train.loss.label_smoothing=0",
            "train.average_last=2", "train.average_share=1", "evaluate.split=valid", "evaluate.samples=2",
            "cluster.backend=local", "registry.register=false", "tracking.offline=true",
            "tracking.system_metrics=false", *overrides,
        ]
    )  # fmt: skip
    return compose.typed(Config, values)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with shards of a small text in it, and a run of each kind of network."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    shard(config(folder))
    for model, sizes in MODELS.items():
        assert train.task(config(folder, f"model={model}", f"name={model}", *sizes)) == 0
    return folder


@pytest.mark.parametrize("model", MODELS)
def test_a_run_becomes_a_measured_bundle(model: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = home / "artifacts" / "runs" / model
    bundle = load_text_bundle(run / "bundle")
    assert bundle.kind == bundle_kind(run / "bundle") == ("masked" if model == "bert_tiny" else "language")
    scores = bundle.facts["scores"]["valid"]
    assert scores["nats"] > 0 and scores["tokens"] > 0
    assert 0 <= scores["unknown_rate"] <= 1
    assert any(b"valid/unknown_rate" in path.read_bytes() for path in (run / "spool").rglob("*") if path.is_file())
    assert ("accuracy" in scores) is (bundle.kind == "masked")
    assert bundle.facts["weights"]["steps"] == [2, 4]
    record = json.loads((run / "evaluation.valid.json").read_text())
    assert record["scores"] == scores and len(record["samples"]) == 2
    shown = contents(run / "bundle")
    assert shown["holds"] == ("masked" if model == "bert_tiny" else "language")
    assert shown["scores"]["valid"] == scores
    # the same command again trains and bundles nothing
    before = [(run / name).stat().st_mtime_ns for name in ("steps.jsonl", "bundle/model.safetensors")]
    assert train.task(config(home, f"model={model}", f"name={model}", *MODELS[model])) == 0
    assert [(run / name).stat().st_mtime_ns for name in ("steps.jsonl", "bundle/model.safetensors")] == before


def test_a_run_may_begin_with_anothers_weights(home: Path) -> None:
    model, runs = "bert_tiny", home / "artifacts" / "runs"
    words = [f"model={model}", f"name={model}-on", f"train.init_from={model}", "train.optimizer.lr=1e-30"]
    assert train.task(config(home, *words, *MODELS[model])) == 0
    first, second = (load_file(runs / name / "bundle" / "model.safetensors") for name in (model, f"{model}-on"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert load_text_bundle(runs / f"{model}-on" / "bundle").facts["init"]["reference"] == model


def test_a_plan_refuses_the_name_of_a_run_of_other_settings(home: Path) -> None:
    """Before a job of it is queued; and nothing is written."""
    run = home / "artifacts" / "runs" / "gpt_tiny"
    same = ["model=gpt_tiny", "name=gpt_tiny", *MODELS["gpt_tiny"]]
    before = sorted(run.rglob("*"))
    launch.check(config(home, *same))
    launch.check(config(home, *same, "name=of-its-own"))
    with pytest.raises(UserError, match=r"name=gpt_tiny: .* was started with other settings: seed was 1, is 2"):
        launch.check(config(home, *same, "seed=2"))
    assert sorted(run.rglob("*")) == before and not (run.parent / "of-its-own").exists()


@pytest.mark.parametrize("model", MODELS)
def test_a_run_and_its_bundle_verify(
    model: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = home / "artifacts" / "runs" / model
    assert entries.main(["verify", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "batches      same     4 steps, as made again" in shown
    copy, shards = tmp_path / "copy", f"paths.shards={config(home).shard_dir}"
    shutil.copytree(run, copy)
    weights = copy / "bundle" / "model.safetensors"
    flip_last_bit(weights)
    assert entries.main(["verify", str(copy), shards]) == 1
    assert "model.safetensors: not the file that was saved" in capsys.readouterr().out


def test_bundles_are_evaluated_and_compared(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = config(home, "bundle=rnnlm_lstm", "evaluate.against=gpt_tiny", "evaluate.trials=100")
    assert evaluate.task(settings) == 0
    printed = capsys.readouterr().out
    assert "bits a character 4." in printed and " against " in printed and "p = " in printed
    with pytest.raises(UserError, match="cannot be compared"):
        evaluate.task(config(home, "bundle=rnnlm_lstm", "evaluate.against=bert_tiny"))


class Shelf:
    """A registry whose versions are runs."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def bundle(self, version: Version, to: Path) -> Path:
        return self.runs / version.number / "bundle"


def test_versions_are_compared_by_likelihood(home: Path) -> None:
    shelf: Any = Shelf(home / "artifacts" / "runs")
    settings = replace(config(home), promote=PromoteConfig(split="valid", trials=100))
    ours, theirs = Version("rnnlm_lstm", ""), Version("gpt_tiny", "")
    found = judge(settings, shelf, ours, theirs)
    assert found.better(1.1) is (found.candidate < found.champion)
    assert "bits a character" in str(found) and "records" in str(found)
    with pytest.raises(UserError, match=r"promote\.metric=bleu: language models are compared by the likelihood"):
        judge(replace(settings, promote=PromoteConfig(metric="bleu")), shelf, ours, theirs)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=transformer_tiny"], "a translation model needs pairs of sentences"),
        (["model=rnnlm_lstm", "train.early_stopping.metric=bleu"], r"train\.early_stopping\.metric=bleu"),
        (["model=rnnlm_lstm", "evaluate.split=test"], r"evaluate\.split=test: .* holds out valid"),
        (["model=rnnlm_lstm", "loader.side=target"], r"loader\.side=target"),
        (
            ["model=gpt_tiny", "model.max_positions=16"],
            r"loader\.context_length=32: the network has only model\.max_positions=16",
        ),
        (["model=bert_tiny", "model.max_positions=16"], r"loader\.max_length=128: the network has only"),
        (["model=rnnlm_lstm", "loader.lanes=3", "cluster.backend=ray"], r"loader\.lanes=3: 2 ranks"),
        (
            ["model=rnnlm_lstm", "pair=de", "paths.shards={home}/artifacts/shards/toy-en-characters"],
            "pair=de: the shards",
        ),
    ],
)
def test_mistakes_are_refused_before_anything_starts(overrides: list[str], message: str, home: Path) -> None:
    words = [word.format(home=home) for word in overrides]
    with pytest.raises(UserError, match=message):
        train.task(config(home, "name=refused", *words))
    assert not (home / "artifacts" / "runs" / "refused").exists()


def test_a_cluster_that_refuses_leaves_no_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(_config: object) -> None:
        raise UserError("cluster.workers=2: the cluster has 1 CPU")

    monkeypatch.setattr("dragoman.pipelines.cluster.map.connect_ray", refusing)
    with pytest.raises(UserError, match="the cluster has 1 CPU"):
        words = ["model=rnnlm_lstm", *MODELS["rnnlm_lstm"], "name=refused", "cluster.backend=ray", "loader.lanes=2"]
        train.task(config(home, *words))
    assert not (home / "artifacts" / "runs" / "refused").exists()


def test_a_run_with_other_settings_of_its_own_loader_is_refused(home: Path) -> None:
    with pytest.raises(UserError, match=r"loader\.context_length was 32, is 16"):
        train.task(
            config(home, "model=rnnlm_lstm", "name=rnnlm_lstm", *MODELS["rnnlm_lstm"], "loader.context_length=16")
        )
    # what only other loaders read makes no other run
    settings = config(home, "model=rnnlm_lstm", "name=rnnlm_lstm", *MODELS["rnnlm_lstm"], "loader.mlm_probability=0.3")
    assert train.task(settings) == 0


def test_batch_norm_is_for_one_process_and_without_a_moving_average(home: Path) -> None:
    words = ["model=gpt_tiny", "name=batch", "model.norm_kind=batch", *MODELS["gpt_tiny"]]
    with pytest.raises(UserError, match=r"model\.norm_kind=batch: .* 2 would train; choose cluster\.workers=1"):
        launch.check(config(home, *words, "cluster.backend=ray", "cluster.workers=2", "loader.lanes=2"))
    with pytest.raises(UserError, match=r"train\.optimizer\.ema_decay=0\.9: averages weights"):
        launch.check(config(home, *words, "train.optimizer.ema_decay=0.9"))
    launch.check(config(home, *words))
