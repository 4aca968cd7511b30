"""Starts by named parts, frozen parts and rates by part."""

from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.directory import read_facts
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import ARCHITECTURES, any_network, model_config
from dragoman.model.networks.part_names import PARTS, parameters
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.settings import OptimizerConfig
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.tasks.part_start import common
from dragoman.pipelines.training.optimizer import make_optimizer
from tests.pipelines.tasks.test_warm_start import config, corpus, weights

STACK = ["model.width=16", "model.heads=2", "model.feed_forward=16", "model.layers=1", "model.norm=post"]
ALIKE = ["model.activation=gelu", "model.positions=learned", "model.max_positions=256"]
STILL = ["train.max_steps=1", "train.optimizer.lr=1e-30", "train.evaluate_every=1", "train.checkpoint_every=1"]


def alone(home: Path, model: str, side: str, *more: str, sizes: list[str] = STACK) -> Config:
    words = [f"model={model}", f"loader.side={side}", "model.max_positions=256", "train.loss.label_smoothing=0",
             "loader.context_length=16", "evaluate.split=valid", *more]  # fmt: skip
    if model == "gpt_tiny":
        words += ["model.activation=gelu", "model.positions=learned"]
    return config(home, *words, sizes=sizes)


PARTLY = [f"train.init_parts.{part}" for part in ("embeddings=masked", "encoder=masked", "decoder=causal")]


def test_a_masked_model_starts_the_encoder_and_a_causal_one_the_decoder(home: Path) -> None:
    assert train.task(config(home, "name=both", *PARTLY, *ALIKE, *STILL)) == 0
    ours, masked, causal = (weights(home, run) for run in ("both", "masked", "causal"))
    assert torch.equal(ours["output.weight"], masked["output.weight"])
    for name, theirs in ((n, t) for n, t in masked.items() if n.startswith(("layers.", "positions."))):
        name = name.replace("layers.", "encoder.").replace("positions.", "source_positions.")
        assert torch.equal(ours[name], theirs), name
    for name, theirs in ((n, t) for n, t in causal.items() if n.startswith(("layers.", "positions."))):
        name = name.replace("layers.", "decoder.").replace("positions.", "target_positions.")
        assert torch.equal(ours[name], theirs), name
    told = read_facts(home / "artifacts" / "runs" / "both" / "bundle")["init"]["parts"]
    assert {part: one["reference"] for part, one in told.items()} == {
        "embeddings": "masked", "encoder": "masked", "decoder": "causal",
    }  # fmt: skip


def test_vocabularies_are_joined_piece_by_piece(home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = [*corpus(home, "other", 2), f"paths.shards={tmp_path}/other", "tokenizer.vocabulary=70"]
    shard(config(home, *other))
    begun = config(home, "name=joined", *other, "train.init_from=first", "train.init_vocabulary=join", *STILL)
    with caplog.at_level("INFO"):
        assert train.task(begun) == 0
    here, there = (load_pair(c.shard_dir, read_manifest(c.shard_dir).tokenizer).source for c in (begun, config(home)))
    pairs = common(here, there)
    assert 6 < len(pairs) < min(here.vocabulary, there.vocabulary)
    ours, theirs = weights(home, "joined"), weights(home, "first")
    table, other_table = ours["output.weight"], theirs["output.weight"]
    for mine, their in pairs:
        assert torch.equal(table[mine], other_table[their])
    assert here.pieces([pairs[-1][0]]) == there.pieces([pairs[-1][1]])
    new = sorted(set(range(here.vocabulary)) - {mine for mine, _ in pairs})
    assert table[new].std() > 0.1, "rows of new pieces are random"
    assert torch.equal(ours["encoder.0.feed_forward.inner.weight"], theirs["encoder.0.feed_forward.inner.weight"])
    rows = read_facts(begun.run_dir / "bundle")["init"]["parts"]["embeddings"]["rows"]["target_embedding"]
    assert rows == {"kept": len(pairs), "new": len(new), "dropped": there.vocabulary - len(pairs)}
    assert f"{len(pairs)} rows kept, {len(new)} new, {there.vocabulary - len(pairs)} dropped" in caplog.text


def test_a_vocabulary_without_a_common_piece_is_refused(home: Path, tmp_path: Path) -> None:
    letters, files = "ΑΒΓΔΕΖΗΘΙΚΛΜ", []
    for number, split in enumerate(("train", "valid", "test")):
        for side in ("source", "target"):
            lines = [letters[n % 12] + letters[n // 12] + letters[number] + "Ω" * (side == "source") for n in range(40)]
            (tmp_path / f"{split}.{side}").write_text("\n".join(lines) + "\n")
            files.append(f"corpus.{split}.{side}={tmp_path}/{split}.{side}")
    words = [
        "corpus.name=greek",
        *files,
        "tokenizer=characters",
        f"paths.shards={tmp_path}/greek",
        "corpus.leaks=source",
    ]
    shard(config(home, *words))
    with pytest.raises(
        UserError, match=r"its vocabulary has no piece of the one of .*greek. Choices: leave embeddings"
    ):
        launch.check(
            config(home, *words, "name=refused", "train.init_parts.embeddings=first", "train.init_vocabulary=join")
        )


def test_a_factor_of_zero_is_no_factor(home: Path) -> None:
    with pytest.raises(UserError, match=r"train.lr_scale.*=0.*above 0"):
        launch.check(config(home, "name=refused", "train.lr_scale.encoder=0.0"))


@pytest.mark.parametrize("name", sorted(PARTS))
def test_every_parameter_has_a_part(name: str) -> None:
    with torch.device("meta"):
        network = any_network(model_config({"architecture": name}), 30, 30)
    found = [parameter for prefixes in PARTS[name].values() for _, parameter in parameters(network, prefixes)]
    assert {id(one) for one in found} == {id(one) for one in network.parameters()}


def test_every_network_is_in_the_table() -> None:
    assert PARTS.keys() == {name for name, row in ARCHITECTURES.items() if row.kind != "vectors"}


@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
def test_a_part_learns_at_its_factor_of_the_rate(kind: str) -> None:
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False))
    first, second = network[0].weight, network[1].weight
    optimizer = make_optimizer(OptimizerConfig(kind=kind), network, scales={second: 0.25})  # type: ignore[arg-type]
    before = first.detach().clone(), second.detach().clone()
    first.grad = torch.ones_like(first)
    second.grad = torch.ones_like(second)
    for group in optimizer.param_groups:
        group["lr"] = 0.01 * group["scale"]
    optimizer.step()
    moved = [(now.detach() - then).norm() for now, then in zip((first, second), before, strict=True)]
    assert moved[1] / moved[0] == pytest.approx(0.25, rel=1e-3)
