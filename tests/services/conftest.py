"""A small real bundle, and what stands around it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from model.bundle import save_bundle
from model.tokenizer import TokenizerConfig, TokenizerPair, train_pair
from model.transformer import Transformer, TransformerConfig

LINES = [
    "the dog sees the man .",
    "a house is old .",
    "where is my friend ?",
    "der hund sieht den mann .",
    "ja , gut !",
]
MakeBundle = Callable[..., Path]


@pytest.fixture(scope="session")
def tokenizers() -> TokenizerPair:
    """Characters, one vocabulary for both sides."""
    config = TokenizerConfig(name="characters", type="characters", vocabulary=100)
    return train_pair(config, LINES, LINES)


@pytest.fixture(scope="session")
def make_bundle(tokenizers: TokenizerPair) -> MakeBundle:
    """make_bundle(directory, seed) -> a bundle of a random network, with every fact that a trained one has."""

    def make(directory: Path, seed: int = 1, **facts: object) -> Path:
        torch.manual_seed(seed)
        config = TransformerConfig(
            width=16, heads=2, feed_forward=16, encoder_layers=1, decoder_layers=1, max_positions=64
        )
        size = tokenizers.source.vocabulary
        network = Transformer(config, size, size).eval()
        save_bundle(
            directory,
            network=network,
            config=config,
            tokenizers=tokenizers,
            facts={
                "pair": "en-de",
                "manifest_hash": "ab" * 32,
                "run": {"id": "r" * 32, "name": "small"},
                "decode": {"beam": 3, "max_extra": 5, "max_ratio": 1.0},
                **facts,
            },
        )
        return directory

    return make


@pytest.fixture(scope="session")
def bundle(make_bundle: MakeBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One bundle for all tests that only read it."""
    return make_bundle(tmp_path_factory.mktemp("bundles") / "small")
