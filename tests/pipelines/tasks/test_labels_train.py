"""`dragoman shard`, `train`, `verify`, `evaluate` and `promote` of networks that label, whole but small."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from dragoman.conf import compose
from dragoman.model.bundles.labelled import load_label_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_answers
from dragoman.model.inference.labeller import Labeller
from dragoman.model.text.labelled_words import Words
from dragoman.pipelines import entries, evaluate, promote, train
from dragoman.pipelines.config import Config
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks.verification import verify as check_run
from dragoman.pipelines.tracking.registry import Registry
from dragoman.services.models.registry import Registry as Served

PEOPLE, BEASTS = ("anna", "ben", "carl", "dora", "emil"), ("cat", "dog", "bird", "fish", "horse", "cow")
LINES = [
    (f"{who} {does} {what}", mood, f"NAME VERB {'NOUN' if what in BEASTS else 'NAME'}")
    for does, mood in (("likes", "good"), ("hates", "bad"), ("fears", "bad"))
    for who in PEOPLE
    for what in (*BEASTS, *PEOPLE)
    if who != what
]
FILES = {
    "classes": [f"{text}\t{mood}\n" for text, mood, _ in LINES],
    "tags": [f"{text}\t{tags}\n" for text, _, tags in LINES],
}
SIZES = {
    "transformer": ["model.width=16", "model.heads=2", "model.feed_forward=16", "model.layers=1", "model.dropout=0"],
    "recurrent": ["model.embedding=16", "model.width=8", "model.dropout=0"],
}
RUNS = {"classes": ("classifier_transformer", "transformer"), "tags": ("tagger_recurrent", "recurrent")}


def words(home: Path, task: str, *overrides: str) -> list[str]:
    """The words of a command line."""
    model, kind = RUNS[task]
    return [
            "corpus=labelled", "pair=en", f"corpus.labels={task}", f"corpus.train.file={home}/{task}.tsv",
            "corpus.cut.valid=0.15", "corpus.cut.test=0.15", "tokenizer=words", "tokenizer.min_count=1",
            f"paths.root={home}/artifacts", f"model={model}", *SIZES[kind], f"name={task}", "loader.max_length=32",
            "loader.batch_tokens=128", "train.max_steps=60", "train.evaluate_every=30", "train.checkpoint_every=20",
            "train.optimizer.lr=0.02", "train.optimizer.warmup_steps=4", "train.loss.label_smoothing=0",
            "train.average_last=2", "registry=labels", "cluster.backend=local", "tracking.system_metrics=false",
            *overrides,
        ]  # fmt: skip


def config(home: Path, task: str, *overrides: str) -> Config:
    return compose.typed(Config, compose.values(words(home, task, *overrides)))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with shards and a run of each head; that of classes is registered."""
    folder = tmp_path_factory.mktemp("home")
    for task, lines in FILES.items():
        (folder / f"{task}.tsv").write_text("".join(lines), encoding="utf-8")
        shard(config(folder, task))
        silent = [] if task == "classes" else ["tracking.offline=true", "registry.register=false"]
        assert train.task(config(folder, task, *silent)) == 0
    return folder


@pytest.mark.parametrize("task", RUNS)
def test_a_run_becomes_a_measured_bundle_that_learned(task: str, home: Path) -> None:
    run = home / "artifacts" / "runs" / task
    bundle = load_label_bundle(run / "bundle")
    scores = bundle.facts["scores"]["test"]
    assert bundle.task == task and scores["accuracy"] > 0.9
    record = json.loads((run / "evaluation.test.json").read_text())
    assert record["scores"] == scores
    assert (run / "confusion.test.png").read_bytes().startswith(b"\x89PNG")
    answer = open_answers(run / "bundle")(["anna hates ben"], {})
    assert answer == {"classes": ["bad"], "tags": ["NAME VERB NAME"]}[task]


def test_a_run_resumes_exactly_and_verifies(home: Path) -> None:
    task = "classes"
    silent = ("tracking.offline=true", "registry.register=false", "name=again")
    made = config(home, task, *silent)
    shutil.rmtree(made.run_dir, ignore_errors=True)
    assert train.task(config(home, task, *silent, "train.max_steps=20", "train.schedule_steps=60")) == 0
    assert train.task(made) == 0
    ours, theirs = (
        load_file(folder / "bundle" / "model.safetensors") for folder in (made.run_dir, made.run_dir.parent / task)
    )
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    values = compose.values([f"paths.root={home}/artifacts", f"paths.shards={made.shard_dir}", "name=again"])
    assert all(check.same for check in check_run(compose.typed(Config, values)))


def test_answers_do_not_depend_on_the_batch(home: Path) -> None:
    runs = home / "artifacts" / "runs"
    texts = [text for text, *_ in LINES]
    classes = Labeller(load_label_bundle(runs / "classes" / "bundle"))
    together = classes.class_probabilities(texts)
    alone = np.concatenate([classes.class_probabilities([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    words = Labeller(load_label_bundle(runs / "tags" / "bundle")).tag([Words.split("anna likes ben")])[0]
    assert [(one.word, one.start, one.tag) for one in words] == [
        ("anna", 0, "NAME"), ("likes", 5, "VERB"), ("ben", 11, "NAME")
    ]  # fmt: skip


def test_the_better_one_is_promoted_and_served_by_its_alias(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = config(home, "classes")
    assert promote.task(made) == 0
    worse = config(home, "classes", "name=worse", "train.max_steps=1", "train.average_last=1")
    assert train.task(worse) == 0
    assert promote.task(worse) == 1
    assert "accuracy" in capsys.readouterr().out
    champion = Registry(made.tracking, made.registry).champion()
    assert champion is not None and champion.number == "1" and champion.tags["head"] == "classes"
    registry = Served(made.tracking.uri, home / "cache")
    directory = registry.fetch(registry.resolve(f"models:/{made.registry.name}@champion"))
    (found,) = Labeller(load_label_bundle(directory)).classify(["ben fears anna"])
    assert found[0].label == "bad"
    against = config(home, "classes", "evaluate.against=worse", "evaluate.split=valid")
    assert evaluate.task(against) == 0
    assert "against worse" in capsys.readouterr().out


def test_a_head_begins_with_a_pretrained_encoder(home: Path) -> None:
    silent = ("tracking.offline=true", "registry.register=false", "train.max_steps=2", "train.checkpoint_every=1")
    values = compose.values(
        [
            "corpus=labelled", "pair=en", "corpus.labels=classes", "tokenizer=words", f"paths.root={home}/artifacts",
            "model=bert_tiny", *SIZES["transformer"], "model.norm=pre", "model.max_positions=256", "name=pretrained",
            "loader.max_length=32", "loader.batch_tokens=128", "train.loss.label_smoothing=0", "evaluate.split=valid",
            "cluster.backend=local", "tracking.system_metrics=false", *silent,
        ]
    )  # fmt: skip
    pretrained = compose.typed(Config, values)
    pretrained.tokenizer.min_count = 1
    assert train.task(pretrained) == 0, "a masked model reads the texts of labelled shards"
    begun = config(home, "classes", *silent, "name=begun", "train.init_from=pretrained")
    assert train.task(begun) == 0
    first, theirs = (
        load_file(begun.run_dir / "init.safetensors"),
        load_file(pretrained.run_dir / "bundle/model.safetensors"),
    )
    assert torch.equal(first["layers.0.feed_forward.inner.weight"], theirs["layers.0.feed_forward.inner.weight"])
    assert not any(name.startswith(("output", "head")) for name in first)
    tuned = config(home, "classes", *silent, "name=tuned", "train.init_from=pretrained", "train.lora.rank=2")
    assert train.task(tuned) == 0
    ours = load_file(tuned.run_dir / "bundle/model.safetensors")
    bias = "layers.0.self_attention.qkv.bias"
    assert torch.equal(ours[bias], theirs[bias]) and "output.weight" in ours
    wider = config(home, "classes", *silent, "name=wider", "train.init_from=pretrained", "model.feed_forward=32")
    with pytest.raises(UserError, match=r"trained with model\.feed_forward=16, this network has 32"):
        train.task(wider)
    other = config(home, "classes", *silent, "name=other", "train.init_from=pretrained", "model.activation=relu")
    with pytest.raises(UserError, match=r"trained with model.activation=gelu, this network has relu"):
        train.task(other)
    from_tags = config(home, "classes", *silent, "name=tagged", "train.init_from=tags")
    with pytest.raises(UserError, match=r"trained with model\.architecture=recurrent_head, this network has tr"):
        train.task(from_tags)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.head=tags"], "model.head=tags: the shards in .* have classes; model.head=classes"),
        (["loader.max_length=512", "loader.batch_tokens=512"], "loader.max_length=512: the network has only"),
        (["train.bleu_every=30"], "train.bleu_every"),
        (["evaluate.split=gate"], "evaluate.split=gate"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_start(home: Path, overrides: list[str], message: str) -> None:
    refused = config(home, "classes", "name=refused", *overrides)
    with pytest.raises(UserError, match=message):
        train.task(refused)
    assert not refused.run_dir.exists()


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            ["train.freeze=[embeddings,encoder,output]"],
            "train.freeze=[embeddings,encoder,output]: nothing is left to tr",
        ),
        (
            ["train.freeze=[decoder]"],
            "train.freeze: 'decoder' is not known. Did you mean 'encoder'? Choices: embeddings",
        ),
    ],
)
def test_the_command_answers_bad_settings_in_a_line(
    home: Path, overrides: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entries.main(["train", *words(home, "classes", "name=refused", *overrides)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("dragoman train: ") and told in last
    assert not (home / "artifacts" / "runs" / "refused").exists()


def test_a_class_without_held_out_texts_is_no_trouble_and_one_without_training_texts_is_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "good.tsv").write_text("olga likes rain\tgood\nolga likes snow\tgood\n")
    given = [f"corpus.test.file={home}/good.tsv", "corpus.cut.test=auto", f"paths.shards={home}/good"]
    one = config(home, "classes", *given)
    shard(one)
    one.bundle = "classes"
    assert evaluate.task(one) == 0
    out = capsys.readouterr().out
    assert "2 texts" in out and "nan" not in out
    (home / "good.tsv").write_text("olga likes rain\tgreat\n")
    words_of = words(home, "classes", *given[:2], f"paths.shards={home}/unseen")
    assert entries.main(["shard", *words_of]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert (
        "corpus.test: has labels that no training text has: great (1). Those of the training texts are bad, good"
        in last
    )


def test_an_evaluation_on_other_labels_names_both(home: Path) -> None:
    (home / "other.tsv").write_text("".join(f"{text}\t{mood}er\n" for text, mood, _ in LINES))
    other = config(home, "classes", f"corpus.train.file={home}/other.tsv", f"paths.shards={home}/other")
    shard(other)
    other.bundle = "classes"
    with pytest.raises(UserError, match=r"bader, gooder, and the model .* knows bad, good"):
        evaluate.task(other)
