"""`train.lora`: low-rank factors are trained, everything else stays, and the release merges them."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.model.bundles.directory import read_facts
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.bundles.weights import fill
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import network_translator
from dragoman.model.layers.low_rank import LowRank, merged
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.runs import checkpoints
from dragoman.model.settings import DecodeConfig
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer import BOS
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks import launch, lora
from dragoman.pipelines.tasks.parts import share
from dragoman.pipelines.tasks.translation import Pairs
from tests.pipelines.tasks.test_warm_start import config, same, weights

LORA = ["train.init_from=first", "train.lora.rank=2", "train.optimizer.lr=0.05", "train.final_weights=last"]


@pytest.fixture(scope="module", autouse=True)
def tuned(home: Path) -> None:
    """A run that changes `first` by low-rank factors."""
    assert train.task(config(home, "name=tuned", *LORA, "train.max_steps=8")) == 0


def test_only_products_change_and_the_bundle_is_an_ordinary_one(home: Path) -> None:
    first, tuned = weights(home, "first"), weights(home, "tuned")
    assert first.keys() == tuned.keys()
    changed = {name for name in first if not torch.equal(first[name], tuned[name])}
    products = ("qkv.weight", "attention.out.weight", "cross_attention.q.weight", "kv.weight", "inner.weight",
                "outer.weight")  # fmt: skip
    assert changed == {name for name in first if name.endswith(products)}
    for name in changed:
        assert torch.linalg.matrix_rank((tuned[name] - first[name]).double(), rtol=1e-3) == 2, name
    bundle = load_bundle(home / "artifacts" / "runs" / "tuned" / "bundle")
    assert bundle.export_folder("float32") is not None
    assert bundle.facts["lora"]["rank"] == 2 and bundle.facts["init"]["reference"] == "first"


def test_merged_and_unmerged_translate_alike(home: Path) -> None:
    settings = config(home, "name=tuned", *LORA, "train.max_steps=8")
    pair = load_pair(settings.shard_dir, read_manifest(settings.shard_dir).tokenizer)
    unmerged = Pairs(settings).network
    fill(unmerged, load_file(checkpoints.last(settings.run_dir) / "network.safetensors"), "checkpoint")
    assert any(isinstance(module, LowRank) for module in unmerged.modules())
    plain = load_bundle(settings.run_dir / "bundle").network
    lines = (home / "toy.train.en").read_text(encoding="utf-8").splitlines()[:100]
    ours, theirs = (
        [one.text for one in network_translator(network.eval(), pair, DecodeConfig(beam=2), "NFC").translate(lines)]
        for network in (plain, unmerged)
    )
    alike = sum(one == other for one, other in zip(ours, theirs, strict=True))
    assert alike >= 95 and len(set(ours)) > 1  # rounding may break a tie of the search
    torch.testing.assert_close(logits(plain), logits(unmerged), rtol=1e-4, atol=1e-4)


def logits(network: TranslationNetwork) -> torch.Tensor:
    """Returns (4, V): those of the first token after random sources."""
    source = torch.randint(10, 40, (4, 7), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return network.step(torch.full((4,), BOS), network.start(network.encode(source), 2))[0]


def test_the_mean_is_of_merged_weights(home: Path) -> None:
    averaged = ["train.final_weights=average", "train.average_last=2", "train.average_share=1"]
    assert train.task(config(home, "name=mean", *LORA, *averaged)) == 0
    kept = [load_file(path) for path in checkpoints.weights_by_step(home / "artifacts/runs/mean").values()]
    assert len(kept) == 2
    mean = weights(home, "mean")
    for name, value in mean.items():
        expected = torch.stack([merged(one)[name] for one in kept]).double().mean(0).to(value.dtype)
        torch.testing.assert_close(value, expected, rtol=0, atol=0)


def test_parts_and_targets_choose_and_whole_parts_are_trained(home: Path) -> None:
    words = ["name=some", *LORA, "train.lora.parts=[encoder]", "train.lora.targets=[attention]"]
    assert train.task(config(home, *words, "train.lora.whole=[embeddings]")) == 0
    first, some = weights(home, "first"), weights(home, "some")
    changed = {name for name in first if not torch.equal(first[name], some[name])}
    own = {f"encoder.0.self_attention.{name}.weight" for name in ("qkv", "out")}
    assert changed >= own and all("embedding" in name or "output" in name for name in changed - own) and changed != own


def test_the_share_is_said_and_small_in_a_network_of_a_usual_size(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        launch.check(config(home, "name=told", *LORA))
    assert "% are trained" in caplog.text
    network = build_network(model_config({"architecture": "transformer"}), 8000, 8000)
    lora.adapt(config(home, *LORA, "train.lora.rank=8", sizes=[]), network)
    assert 0.001 < share(network) < 0.05


def test_networks_without_such_products_are_refused(home: Path) -> None:
    recurrent = ["model=rnnsearch_dot", "model.width=16", "model.encoder_width=8"]
    assert train.task(config(home, "name=recurrent", *recurrent, sizes=[])) == 0
    with pytest.raises(UserError, match="rank=2: rnnsearch has no attention or feed_forward to change"):
        launch.check(config(home, "name=no", *recurrent, *LORA, "train.init_from=recurrent", sizes=[]))
    with pytest.raises(UserError, match="rank=2: word vectors have no products to change"):
        launch.check(config(home, "name=no", "model=skipgram", "registry=vectors", *LORA, sizes=[]))


def alone(home: Path, name: str, *more: str) -> Config:
    words = [f"name={name}", "model=gpt_tiny", "loader.side=target", "train.loss.label_smoothing=0",
             "loader.context_length=16", "evaluate.split=valid", *more]  # fmt: skip
    sizes = ["model.width=16", "model.heads=2", "model.feed_forward=16", "model.layers=1"]
    return config(home, *words, sizes=sizes)


def test_a_language_model_is_tuned_too(home: Path) -> None:
    assert train.task(alone(home, "predictor")) == 0
    assert train.task(alone(home, "narrow", *LORA, "train.init_from=predictor")) == 0
    first, narrow = weights(home, "predictor"), weights(home, "narrow")
    assert first.keys() == narrow.keys() and not same(first, narrow)
    assert torch.equal(first["output.weight"], narrow["output.weight"])
    assert read_facts(home / "artifacts/runs/narrow/bundle")["lora"]["alpha"] == 16.0
