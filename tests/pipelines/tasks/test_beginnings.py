"""What a run begins with: it goes on exactly, is proved, and refuses what does not fit."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.model.errors import UserError
from dragoman.model.runs import checkpoints
from dragoman.pipelines import entries, train
from dragoman.pipelines.tasks import launch
from tests.pipelines.tasks.test_lora import LORA
from tests.pipelines.tasks.test_warm_start import config, same, weights

FACTORS = ["train.init_from=first", "train.lora.rank=2", "train.lora.dropout=0.1", "train.average_last=2",
           "train.average_share=1"]  # fmt: skip
FROZEN = ["train.init_from=first", "train.freeze=[encoder]", "train.optimizer.kind=muon"]


@pytest.mark.parametrize(
    ("name", "words", "change", "told"),
    [
        ("adam", FACTORS, "train.lora.rank=3", "lora.rank was 2, is 3"),
        ("frozen", FROZEN, "train.freeze=[]", "freeze was"),
    ],
)
def test_a_run_goes_on_and_is_proved(
    name: str, words: Sequence[str], change: str, told: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, cut, words = f"{name}-whole", f"{name}-cut", [*words, "train.optimizer.ema_decay=0.5"]
    words.append("train.schedule_steps=4")
    assert train.task(config(home, f"name={whole}", *words)) == 0
    assert train.task(config(home, f"name={cut}", *words, "train.max_steps=2")) == 0
    assert train.task(config(home, f"name={cut}", *words)) == 0
    assert same(weights(home, cut), weights(home, whole)) and not same(weights(home, cut), weights(home, "first"))
    places = [f"paths.root={home}/artifacts", f"paths.shards={config(home).shard_dir}"]
    assert entries.main(["verify", cut, *places]) == 0
    assert "nothing differs" in capsys.readouterr().out
    with pytest.raises(UserError, match=told):
        launch.check(config(home, f"name={cut}", *words, change))
    newest = load_file(checkpoints.last(home / "artifacts/runs" / cut) / "network.safetensors")
    assert (newest.keys() == weights(home, "first").keys()) is (name == "frozen"), "checkpoints hold the factors"


def test_parts_are_frozen_and_the_record_names_the_settings(home: Path) -> None:
    before, after = weights(home, "first"), weights(home, "frozen-whole")
    encoder = "encoder.0.feed_forward.inner.weight"
    assert torch.equal(after[encoder], before[encoder])
    assert not torch.equal(after["output.weight"], before["output.weight"])
    run = home / "artifacts" / "runs" / "frozen-whole"
    record = json.loads((run / "run.json").read_text())
    assert record["freeze"] == ["encoder"] and record["init_from"] == "first"
    assert load_file(run / "init.safetensors")


REFUSED: list[tuple[list[str], list[tuple[list[str], str]]]] = [
    (["train.init_from=first"], [
        (["train.init_from=nowhere"], "train.init_from: 'nowhere' is neither a bundle's directory nor a run"),
        (["model.width=32"], "train.init_from=first: was trained with model.width=16, this network has 32"),
        (["embeddings.source=words"], "embeddings.source and .target"),
    ]),
    (LORA, [
        (["train.init_from=null"], "rank=2: changes a trained network; name it with train.init_from"),
        (["train.lora.rank=17"], r"rank=17: encoder.0.*is \(48, 16\); choose a rank of at most 16"),
        (["train.lora.rank=0", "train.lora.alpha=4"], "train.lora: has settings, and train.lora.rank=0 trains without"),
        (["train.freeze=[encoder]"], r"freezes all but its factors, so leave train.freeze=\[encoder\] out"),
        (["train.lora.parts=[embeddings]"], "train.lora.parts: 'embeddings' is not known.*decoder, encoder"),
        (["train.lora.whole=[encoder,decoder]"], "trains whole what is to get factors"),
        (["train.lora.targets=[]"], r"train.lora.targets=\[\]: nothing is left to train. Choices: attention"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "told"), [([*words, *more], told) for words, rows in REFUSED for more, told in rows])
def test_what_does_not_fit_is_refused_and_leaves_nothing(home: Path, words: Sequence[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        train.task(config(home, "name=refused", *words))
    assert not (home / "artifacts" / "runs" / "refused").exists()
