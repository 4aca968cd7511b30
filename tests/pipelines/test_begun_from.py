"""`train.init_from`: the network has the sizes of the bundle, for imported models and for heads above them."""

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dragoman.conf import compose
from dragoman.model.bundles.directory import read_facts
from dragoman.pipelines.config import Config
from dragoman.pipelines.settle import begun_words, settle
from dragoman.services.cli import main
from tests import huggingface_folders as folders

pytest.importorskip("transformers")
QUIET = ["registry.register=false", "tracking.offline=true", "tracking.system_metrics=false"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with an imported encoder, `bert`, and an imported language model, `gpt2`."""
    folder = tmp_path_factory.mktemp("home")
    for kind in ("bert", "gpt2"):
        folders.stack(folder / "given" / kind, kind)
        words = [str(folder / "given" / kind), "pair=en", f"paths.root={folder}", *QUIET]
        assert main(["import", *words]) == 0
    return folder


def model(home: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = compose.values([f"paths.root={home}", *words], settle=partial(settle, "compare"))["model"]
    return found


def test_the_network_is_the_bundles(home: Path) -> None:
    facts = read_facts(home / "runs" / "gpt2" / "bundle")["model"]
    assert model(home, "train.init_from=gpt2") == facts
    chosen = model(home, "train.init_from=gpt2", "model=gpt_small", "model.dropout=0.3")
    assert (chosen["name"], chosen["dropout"]) == ("gpt_small", 0.3)
    assert all(chosen[key] == value for key, value in facts.items() if "dropout" not in key and key != "name")


def test_what_the_user_chose_stays_for_the_check_before_a_training(home: Path) -> None:
    assert model(home, "train.init_from=gpt2", "model=gpt_small", "model.width=16")["width"] == 16
    assert model(home, "train.init_from=gpt2", "model=rnnlm_lstm")["architecture"] == "rnnlm"
    assert model(home, "train.init_from=none-such")["architecture"] == "transformer"


def test_a_head_takes_the_encoder_below_it(home: Path) -> None:
    found = model(home, "train.init_from=bert", "model=classifier_transformer", "model.pooling=first")
    bert = read_facts(home / "runs" / "bert" / "bundle")["model"]
    assert (found["architecture"], found["pooling"]) == ("transformer_head", "first")
    assert {key: found[key] for key in ("width", "layers", "norm", "prefix", "embedding_norm", "norm_epsilon")} == {
        key: bert[key] for key in ("width", "layers", "norm", "prefix", "embedding_norm", "norm_epsilon")
    }


def test_shards_with_an_imported_tokenizer_lead_to_the_model_it_came_with(tmp_path: Path) -> None:
    for name, imported in (("opus", {"imported": {}}), ("own", {})):
        bundle = tmp_path / "runs" / name / "bundle"
        bundle.mkdir(parents=True)
        facts = {"format_version": 2, "pair": "en-de", "model": {}, **imported}
        (bundle / "config.json").write_text(json.dumps(facts), encoding="utf-8")
    for name, words in (("opus", ["train.init_from=opus"]), ("own", []), ("shards", [])):
        values = compose.values([f"paths.root={tmp_path}", "tokenizer=unigram", f"tokenizer.same_as={name}"])
        assert begun_words([], compose.typed(Config, values)) == words


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("gpt2", ["registry=language", "loader.context_length=16", "train.lora.rank=2"]),
        ("bert", ["registry=labels", "model=classifier_transformer", "loader.max_length=40"]),
    ],
)
def test_an_imported_model_is_trained_on_in_two_commands(
    kind: str, words: list[str], home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    labelled = kind == "bert"
    for split, count in (("train", 40), ("valid", 8), ("test", 8)):
        lines = [f"{line[:-1]} {split} {number}" for number in range(count) for line in folders.ENGLISH[:2]]
        rows = [f"{line}\t{'ab'[number % 2]}" if labelled else line for number, line in enumerate(lines)]
        (home / f"{kind}.{split}").write_text("\n".join(rows) + "\n", encoding="utf-8")
    corpus = [
        f"corpus={'labelled' if labelled else 'text'}", "pair=en", f"corpus.name={kind}", f"paths.root={home}",
        *(f"corpus.{split}.file={home}/{kind}.{split}" for split in ("train", "valid", "test")),
        "tokenizer=huggingface", "corpus.check=off",
    ]  # fmt: skip
    assert main(["shard", *corpus, f"tokenizer.same_as={kind}", "cluster.workers=1"]) == 0
    (following,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("next:")]
    assert f"train.init_from={kind}" in following and "model=gpt" not in following
    training = [
        *corpus, f"train.init_from={kind}", *words, f"name=on-{kind}", "train.max_steps=2", "train.evaluate_every=2",
        "train.optimizer.warmup_steps=1", "cluster.backend=local", "cluster.workers=1", "loader.lanes=1",
        "loader.batch_tokens=128", "train.loss.label_smoothing=0", "train.precision=fp32", *QUIET,
    ]  # fmt: skip
    assert main(["train", *training]) == 0
    facts = read_facts(home / "runs" / f"on-{kind}" / "bundle")
    assert facts["model"]["width"] == 32 and facts["tokenizer"]["type"] == "huggingface"
