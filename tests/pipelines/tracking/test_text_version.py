"""Language models in the registry: loaded by MLflow without a pickle, told apart by kind, promoted by likelihood."""

from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.language import TextKind, load_text_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.decoding.fill_mask import fill_masks
from dragoman.model.decoding.generation import generate
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.settings import GenerateConfig
from dragoman.model.text.tokenizer import BOS, MASK, PAD, SEP, UNK, TokenizerConfig
from dragoman.model.text.tokenizers import train
from dragoman.pipelines.tracking.registry import Registry, register_bundle
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.settings import PromoteConfig, RegistryConfig, TrackingConfig
from tests.held_out import keep_texts
from tests.pipelines.tracking.conftest import promoted

REGISTRY = RegistryConfig(name="toy-en-language")
TEXT = ["the cat sat on the mat", "a dog sat on the cat", "the mat was the dog's"] * 5
WORDS = train(TokenizerConfig(name="words", type="words"), TEXT)
MODELS: dict[TextKind, dict[str, object]] = {
    "language": {"architecture": "rnnlm", "name": "rnnlm_lstm", "embedding": 8, "width": 8, "layers": 1},
    "masked": {
        "architecture": "bert", "name": "bert_tiny", "width": 8, "heads": 2, "feed_forward": 8, "layers": 1,
        "max_positions": 32,
    },
}  # fmt: skip


def register(tracking: TrackingConfig, folder: Path, kind: TextKind, learned: float = 0.0) -> Path:
    """`learned`: how far the ids that no text has are made unlikely."""
    config = model_config(MODELS[kind])
    torch.manual_seed(1)
    network = build_network(config, WORDS.vocabulary, WORDS.vocabulary)
    with torch.no_grad():
        network.output.bias[[PAD, UNK, BOS, MASK, SEP]] -= learned
    facts = {
        "pair": "en",
        "manifest_hash": "ab" * 32,
        "run": {"name": "r", "id": None},
        "scores": {"valid": {"nats": 2.5, "bits_per_character": 1.25, "perplexity": 12.18, "tokens": 7}},
    }
    bundle = folder / f"run-{kind}-{learned}" / "bundle"
    save_bundle(bundle, network=network, config=config, tokenizers=WORDS, facts=facts)
    with TrackedRun(tracking, bundle.parent, bundle.parent.name) as run:
        assert register_bundle(tracking, REGISTRY, run, bundle) is not None
    return bundle


@pytest.mark.parametrize("kind", MODELS)
def test_mlflow_loads_a_version_without_a_pickle(
    kind: TextKind, tracking: TrackingConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = load_text_bundle(register(tracking, tmp_path, kind))
    registry = Registry(tracking, REGISTRY)
    expected = {"bundle_kind": kind, "pair": "en", "method": MODELS[kind]["name"], "valid_nats": "2.5000"}
    assert registry.version("1").tags.items() >= expected.items()
    described = registry.client.get_model_version(REGISTRY.name, "1").description
    assert "**On valid** 1.2500 bits per character, 2.5000 nats per token, perplexity 12.18" in described
    assert not [path for path in (tmp_path / "mlartifacts").rglob("*") if path.suffix in (".pkl", ".pickle", ".pt")]
    text = "the cat <mask> on" if kind == "masked" else "the cat"
    if kind == "masked":
        wanted = fill_masks(bundle.network, bundle.tokenizer, [text])[0].text
    else:
        drawn = GenerateConfig(temperature=0.5, max_tokens=7, seed=3)
        wanted = generate(bundle.language_network, bundle.tokenizer, [text], drawn)[0][0].text
    params = {"temperature": 0.5, "max_tokens": 7, "seed": 3} if kind == "language" else None
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking.uri)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    assert mlflow.pyfunc.load_model("models:/toy-en-language/1").predict([text], params=params) == [wanted]


def test_versions_are_promoted_by_likelihood_and_kinds_are_not_mixed(tracking: TrackingConfig, tmp_path: Path) -> None:
    shards = keep_texts(tmp_path / "shards", {"valid": {"en": TEXT}}, kind="monolingual")
    for learned in (0.0, 2.0, 1.0):
        register(tracking, tmp_path, "language", learned)
    register(tracking, tmp_path, "masked")

    def promote(version: str, reason: str = "") -> bool:
        config = PromoteConfig(version=version, trials=200, force=bool(reason), reason=reason)
        return promoted(tracking, REGISTRY, config, tmp_path, shards).accepted

    assert not promote("1"), "it knows less than the frequencies of the tokens"
    assert promote("1", "the first")
    assert promote("2"), "it knows that the specials do not come"
    assert not promote("3"), "it knows it less well"
    with pytest.raises(UserError, match="version 4 is of kind masked, the champion 2 of kind language"):
        promote("4")
