"""`train.init_from` and `tokenizer.same_as`: a run that begins with another's weights, on shards of its vocabulary."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.conf import compose
from dragoman.model.bundles.directory import bundle_hash, read_facts
from dragoman.model.errors import UserError
from dragoman.model.runs.paths import FIRST_WEIGHTS
from dragoman.model.runs.spool import Spool
from dragoman.model.shards.manifest import read_manifest
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.tasks.translation import Pairs
from dragoman.pipelines.tasks.warm_start import vocabularies
from tests.pipelines.conftest import make_pairs

SMALL = ["model.width=16", "model.heads=2", "model.feed_forward=16", "model.encoder_layers=1", "model.decoder_layers=1"]


def config(home: Path, *overrides: str, sizes: Sequence[str] = SMALL) -> Config:
    values = compose.values(
        [
            "corpus=moses", "corpus.name=toy", f"paths.root={home}/artifacts", "tokenizer.vocabulary=90", *sizes,
            "loader.batch_tokens=256", "train.max_steps=4", "train.evaluate_every=4", "train.checkpoint_every=2",
            "train.optimizer.warmup_steps=1", "train.average_last=1", "decode.beam=1", "decode.length_penalty=1",
            "train.precision=fp32", "evaluate.samples=0", "cluster.backend=local", "registry.register=false",
            "tracking.offline=true", "tracking.system_metrics=false", *overrides,
        ]
    )  # fmt: skip
    return compose.typed(Config, values)


def corpus(home: Path, name: str, seed: int) -> list[str]:
    """A corpus of its own under `home`, as overrides."""
    for split, number in (("train", 300), ("valid", 20), ("test", 20)):
        pairs = make_pairs(number, seed * 10 + len(split))
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (home / f"{name}.{split}.{language}").write_text(text, encoding="utf-8")
    files = [
        f"corpus.{split}.{side}={home}/{name}.{split}.{language}"
        for split in ("train", "valid", "test")
        for side, language in (("source", "en"), ("target", "de"))
    ]
    return [f"corpus.name={name}", *files]


def weights(home: Path, run: str) -> dict[str, torch.Tensor]:
    return load_file(home / "artifacts" / "runs" / run / "bundle" / "model.safetensors")


def tags(run: Path) -> dict[str, str]:
    """The tags of a run in MLflow."""
    found = [record.fields["values"] for record in Spool(run).records() if record.kind == "tags"]
    return {key: value for values in found for key, value in values.items()}


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_it_begins_with_the_others_weights_and_says_so(home: Path) -> None:
    runs = home / "artifacts" / "runs"
    still = ["train.max_steps=1", "train.optimizer.lr=1e-30", "train.evaluate_every=1", "train.checkpoint_every=1"]
    assert train.task(config(home, "name=second", "train.init_from=first", "model.dropout=0.3", *still)) == 0
    assert same(weights(home, "second"), weights(home, "first"))
    told = read_facts(runs / "second" / "bundle")["init"]
    first = read_facts(runs / "first" / "bundle")
    assert told == {"reference": "first", "digest": bundle_hash(runs / "first" / "bundle"), "run": first["run"]}
    assert "init" not in first
    assert tags(runs / "second")["train.init_from"] == f"first (run first, bundle {told['digest'][:12]})"
    assert "train.init_from" not in tags(runs / "first")
    assert train.task(config(home, "name=drawn", *still)) == 0
    assert not same(weights(home, "drawn"), weights(home, "first"))


def test_a_run_that_goes_on_needs_the_other_no_more(home: Path) -> None:
    runs = home / "artifacts" / "runs"
    shutil.copytree(runs / "first", runs / "moved")
    begun = ["name=third", "train.init_from=moved"]
    assert train.task(config(home, *begun)) == 0
    shutil.rmtree(runs / "moved")
    assert train.task(config(home, *begun, "train.max_steps=6")) == 0
    assert (runs / "third" / FIRST_WEIGHTS).is_file()
    assert len((runs / "third" / "steps.jsonl").read_text().splitlines()) >= 6
    with pytest.raises(UserError, match="init_from"):
        launch.check(config(home, "name=third", "train.init_from=first"))


def test_a_network_of_another_kind_is_refused(home: Path) -> None:
    with pytest.raises(UserError, match=r"was trained with model.architecture=transformer, this network has rnnsearch"):
        train.task(config(home, "name=refused", "train.init_from=first", "model=rnnsearch_dot", sizes=[]))


def test_shards_may_have_anothers_tokenizer(home: Path, tmp_path: Path) -> None:
    """By the name of a run, by the folder of shards; another vocabulary is refused where weights are to be taken."""
    other = corpus(home, "other", 2)
    own = shard(config(home, *other))
    first = home / "artifacts" / "shards" / "toy-en-de-bpe"
    assert read_manifest(own.directory).tokenizer != read_manifest(first).tokenizer
    start = ["name=fourth", "train.init_from=first"]
    with pytest.raises(UserError, match=r"its tokenizer is not that of the shards.*tokenizer.same_as=first"):
        train.task(config(home, f"paths.shards={own.directory}", *start))

    made = shard(config(home, *other, "tokenizer.same_as=first", f"paths.shards={tmp_path}/a"))
    again = shard(config(home, *other, f"tokenizer.same_as={first}", f"paths.shards={tmp_path}/b"))
    assert made.manifest.tokenizer == again.manifest.tokenizer == read_manifest(first).tokenizer
    assert made.manifest_hash == again.manifest_hash
    kept = json.loads((made.directory / "manifest.json").read_text())["config"]["tokenizer"]
    assert kept["same_as"] == made.manifest.tokenizer["files"][0]["sha256"]
    assert str(home) not in (made.directory / "manifest.json").read_text()
    assert shard(config(home, *other, "tokenizer.same_as=first", f"paths.shards={tmp_path}/a")).found
    assert train.task(config(home, f"paths.shards={tmp_path}/a", *start)) == 0
    fourth = home / "artifacts" / "runs" / "fourth"
    assert read_facts(fourth / "bundle")["tokenizer_same_as"] == kept["same_as"]
    assert kept["same_as"][:12] in tags(fourth)["tokenizer.same_as"]


def test_a_tokenizer_of_another_type_or_of_other_languages_is_refused(home: Path, tmp_path: Path) -> None:
    other = corpus(home, "third", 3)
    with pytest.raises(UserError, match=r"tokenizer.type=words: that of tokenizer.same_as=first is bpe"):
        shard(config(home, *other, "tokenizer=words", "tokenizer.same_as=first", f"paths.shards={tmp_path}/a"))
    apart = shard(config(home, *other, "tokenizer.joint=false", f"paths.shards={tmp_path}/apart")).directory
    backwards = [word.replace(".source", ".x").replace(".target", ".source").replace(".x", ".target") for word in other]
    with pytest.raises(UserError, match=r"has a vocabulary for each of en-de, and pair=de-en is asked for"):
        shard(config(home, *backwards, "pair=de-en", f"tokenizer.same_as={apart}", f"paths.shards={tmp_path}/b"))
    with pytest.raises(UserError, match=r"tokenizer.same_as: 'nothing' is neither"):
        shard(config(home, *other, "tokenizer.same_as=nothing", f"paths.shards={tmp_path}/c"))
    assert not list(tmp_path.glob("[abc]"))


def test_tables_of_two_vocabularies_are_not_exchanged() -> None:
    """Weights of en-de have each language's table on its side: those of de-en are others, from the same two files."""
    there = {"files": [{"side": "source", "sha256": "a"}, {"side": "target", "sha256": "b"}]}
    here = {"files": [{"side": "source", "sha256": "b"}, {"side": "target", "sha256": "a"}]}
    assert vocabularies(there) != vocabularies(here)
    assert vocabularies(there) == vocabularies({"files": there["files"][::-1]})


def test_every_process_begins_alike(home: Path) -> None:
    """As drawn weights do: from what the run keeps, with the reference out of reach."""
    settings = config(home, "name=third", "train.init_from=moved")
    ours = Pairs(settings).network.state_dict()
    for name, tensor in weights(home, "first").items():
        assert torch.equal(ours[name], tensor)
