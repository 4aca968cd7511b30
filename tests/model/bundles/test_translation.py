"""A bundle comes back as it was saved, and anything else is refused by name."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train_pair

FACTS = {
    "pair": "en-de",
    "manifest_hash": "ab" * 32,
    "run": {"id": None, "name": "small"},
    "decode": {"beam": 3, "length_penalty": 0.8},
}


def tokenizers(joint: bool = True) -> TokenizerPair:
    rng = random.Random(4)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 5))) for _ in range(80)]
    lines = [" ".join(rng.choices(words, k=8)) for _ in range(200)]
    config = TokenizerConfig(type="bpe", vocabulary=120 if joint else 100, joint=joint)
    return train_pair(config, lines[:100], lines[100:])


def network(pair: TokenizerPair, **settings: object) -> Transformer:
    torch.manual_seed(1)
    config = TransformerConfig(
        width=16, heads=2, feed_forward=20, encoder_layers=1, decoder_layers=1, max_positions=32, **settings
    )
    return Transformer(config, pair.source.vocabulary, pair.target.vocabulary).eval()


def save(directory: Path, facts: Mapping[str, Any] = FACTS, **settings: Any) -> Transformer:
    """Saves a network of these settings; returns it."""
    pair = tokenizers()
    model = network(pair, **settings)
    save_bundle(directory, network=model, config=model.config, tokenizers=pair, facts=facts)
    return model


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save(tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_bundle_comes_back_as_it_was_saved(tie: str, positions: str, tmp_path: Path) -> None:
    pair = tokenizers(joint=tie == "all")
    model = network(pair, tie=tie, positions=positions)
    save_bundle(tmp_path / "b", network=model, config=model.config, tokenizers=pair, facts=FACTS)
    bundle = load_bundle(tmp_path / "b")
    assert bundle.architecture == "transformer"
    assert bundle.config == model.config
    assert bundle.decode == DecodeConfig(beam=3, length_penalty=0.8)
    assert bundle.facts == FACTS
    assert (bundle.pair, bundle.languages) == ("en-de", ("en", "de"))
    assert (bundle.source_positions, bundle.target_positions) == (32, 32)
    assert bundle.tokenizers.describe() == pair.describe()
    expected, loaded = model.state_dict(), bundle.network.state_dict()
    assert expected.keys() == loaded.keys()
    assert all(torch.equal(tensor, loaded[name]) for name, tensor in expected.items())
    if tie != "none":
        assert bundle.network.output.weight is bundle.network.target_embedding.weight
    assert not bundle.network.training


def test_nothing_in_a_bundle_is_pickled_and_every_file_is_listed(saved: Path) -> None:
    files = {path.relative_to(saved).as_posix() for path in saved.rglob("*") if path.is_file()}
    assert {"model.safetensors", "tokenizer.model", "ct2/model.bin", "ct2-int8/model.bin"} < files
    assert {Path(name).suffix for name in files} == {".json", ".safetensors", ".model", ".bin"}
    assert set(json.loads((saved / "config.json").read_text())["files"]) == files - {"config.json"}


def test_weights_that_do_not_fit_are_named(saved: Path) -> None:
    record = json.loads((saved / "config.json").read_text())
    for change, message in (({"decoder_layers": 2}, "no tensor 'decoder.1"), ({"feed_forward": 24}, "has shape")):
        (saved / "config.json").write_text(json.dumps(record | {"model": record["model"] | change}))
        with pytest.raises(UserError, match=message):
            _ = load_bundle(saved).network


def test_saving_replaces_an_older_bundle_and_leaves_nothing_beside_it(saved: Path) -> None:
    pair = tokenizers()
    (saved / "stray").write_text("of the older one")
    model = network(pair, norm="pre")
    save_bundle(saved, network=model, config=model.config, tokenizers=pair, facts=FACTS, exports=())
    assert load_bundle(saved).config.norm == "pre"
    assert load_bundle(saved).export_folder("float32") is None
    assert [path.name for path in saved.parent.iterdir()] == ["bundle"]
    assert not (saved / "stray").exists()


def test_a_failed_save_leaves_the_older_bundle(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_bundle(saved).digest

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dragoman.model.bundles.directory._json", full)
    with pytest.raises(OSError, match="No space"):
        save(saved, norm="pre")
    assert load_bundle(saved).digest == before
    assert [path.name for path in saved.parent.iterdir()] == ["bundle"]
