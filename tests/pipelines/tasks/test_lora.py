"""`train.lora`: low-rank factors are trained, everything else stays, and the release merges them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.model.bundles.directory import read_facts
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.bundles.weights import fill
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import network_translator
from dragoman.model.layers.low_rank import LowRank
from dragoman.model.networks.architectures import any_network, model_config
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.runs import checkpoints
from dragoman.model.settings import DecodeConfig
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer import BOS
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines import entries, train
from dragoman.pipelines.config import Config
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch, lora
from dragoman.pipelines.tasks.parts import share
from dragoman.pipelines.tasks.translation import Pairs
from tests.pipelines.tasks.test_warm_start import config, corpus, same, weights

LORA = ["train.init_from=first", "train.lora.rank=2", "train.optimizer.lr=0.05", "train.final_weights=last"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a run `first` and a run `tuned` that changes it by low-rank factors."""
    folder = tmp_path_factory.mktemp("home")
    shard(config(folder, *corpus(folder, "toy", 1)))
    assert train.task(config(folder, "name=first")) == 0
    assert train.task(config(folder, "name=tuned", *LORA, "train.max_steps=8")) == 0
    return folder


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
    merged = load_bundle(settings.run_dir / "bundle").network
    lines = (home / "toy.train.en").read_text(encoding="utf-8").splitlines()[:100]
    ours, theirs = (
        [one.text for one in network_translator(network.eval(), pair, DecodeConfig(beam=2)).translate(lines)]
        for network in (merged, unmerged)
    )
    assert ours == theirs and len(set(ours)) > 1
    torch.testing.assert_close(logits(merged), logits(unmerged), rtol=1e-4, atol=1e-4)


def logits(network: TranslationNetwork) -> torch.Tensor:
    """Returns (4, V): those of the first token after random sources."""
    source = torch.randint(10, 40, (4, 7), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return network.step(torch.full((4,), BOS), network.start(network.encode(source), 2))[0]


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_a_run_goes_on_and_is_proved(home: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train.init_from=first", "train.lora.rank=2", "train.lora.dropout=0.1", f"train.optimizer.kind={kind}",
             "train.optimizer.ema_decay=0.5", "train.schedule_steps=4", "train.average_last=2",
             "train.average_share=1"]  # fmt: skip
    assert train.task(config(home, f"name=whole-{kind}", *words)) == 0
    assert train.task(config(home, f"name=parts-{kind}", *words, "train.max_steps=2")) == 0
    assert train.task(config(home, f"name=parts-{kind}", *words)) == 0
    assert same(weights(home, f"parts-{kind}"), weights(home, f"whole-{kind}"))
    assert same(weights(home, f"parts-{kind}"), weights(home, "first")) is False
    places = [f"paths.root={home}/artifacts", f"paths.shards={config(home).shard_dir}", "verify.recompute=ALL"]
    assert entries.main(["verify", f"parts-{kind}", *places]) == 0
    assert "nothing differs" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"lora.rank was 2, is 3"):
        launch.check(config(home, f"name=parts-{kind}", *words, "train.lora.rank=3"))


def test_the_moving_average_is_merged_and_proved(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["name=ema", *LORA, "train.final_weights=ema", "train.optimizer.ema_decay=0.5"]
    assert train.task(config(home, *words)) == 0
    assert weights(home, "ema").keys() == weights(home, "first").keys()
    places = [f"paths.root={home}/artifacts", f"paths.shards={config(home).shard_dir}"]
    assert entries.main(["verify", "ema", *places]) == 0
    assert "nothing differs" in capsys.readouterr().out


def test_optimizer_states_are_those_of_the_factors(home: Path) -> None:
    newest = checkpoints.last(home / "artifacts" / "runs" / "tuned")
    names = {name.rsplit("/", 1)[0].rsplit(".", 1)[1] for name in load_file(newest / "optimizer.safetensors")}
    assert names == {"up", "down"}


def test_parts_and_targets_choose_and_whole_parts_are_trained(home: Path) -> None:
    words = ["name=some", *LORA, "train.lora.parts=[encoder]", "train.lora.targets=[attention]"]
    assert train.task(config(home, *words, "train.lora.whole=[embeddings]", "train.lr_scale.embeddings=0.1")) == 0
    first, some = weights(home, "first"), weights(home, "some")
    changed = {name for name in first if not torch.equal(first[name], some[name])}
    own = {f"encoder.0.self_attention.{name}.weight" for name in ("qkv", "out")}
    assert changed >= own and all("embedding" in name or "output" in name for name in changed - own) and changed != own


def test_the_share_is_said_and_small_in_a_network_of_a_usual_size(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        launch.check(config(home, "name=told", *LORA))
    assert "% are trained" in caplog.text
    network = any_network(model_config({"architecture": "transformer"}), 8000, 8000)
    lora.adapt(config(home, *LORA, "train.lora.rank=8", sizes=[]), network)
    assert 0.001 < share(network) < 0.05


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["train.init_from=null"], "rank=2: changes a trained network; name it with train.init_from"),
        (["train.lora.rank=17"], r"rank=17: encoder.0.*is \(48, 16\); choose a rank of at most 16"),
        (["train.lora.rank=-1"], "train.lora.rank=-1.*at least 0"),
        (["train.lora.rank=0", "train.lora.alpha=4"], "train.lora: has settings, and train.lora.rank=0 trains without"),
        (["train.freeze=[encoder]"], r"freezes all but its factors, so leave train.freeze=\[encoder\] out"),
        (["train.lora.parts=[embeddings]"], "train.lora.parts: 'embeddings' is not known.*decoder, encoder"),
        (["train.lora.whole=[head]"], "train.lora.whole: 'head' is not known"),
        (["train.lora.whole=[encoder,decoder]"], "trains whole what is to get factors"),
        (["train.lora.whole=[encoder]", "train.lora.parts=[encoder]"], "trains whole what is to get factors"),
        (["train.lora.targets=[tables]"], "train.lora.targets: 'tables' is not known.*attention, feed_forward"),
        (["train.lora.targets=[]"], r"train.lora.targets=\[\]: nothing is left to train. Choices: attention"),
        (["train.lr_scale.embeddings=2"], "train.lr_scale.embeddings=2: train.lora.rank=2 trains nothing of this"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(home: Path, overrides: Sequence[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        train.task(config(home, "name=refused", *LORA, *overrides))
    assert not (home / "artifacts" / "runs" / "refused").exists()


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
    assert train.task(alone(home, "causal")) == 0
    assert train.task(alone(home, "narrow", *LORA, "train.init_from=causal")) == 0
    first, narrow = weights(home, "causal"), weights(home, "narrow")
    assert first.keys() == narrow.keys() and not same(first, narrow)
    assert torch.equal(first["output.weight"], narrow["output.weight"])
    assert read_facts(home / "artifacts/runs/narrow/bundle")["lora"]["alpha"] == 16.0
