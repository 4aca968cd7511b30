"""The bundle of a language model: saved whole, opened as what it is and as nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train

TEXT = ["the cat sat on the mat", "a dog sat on the cat"]
MODEL = {"architecture": "rnnlm", "cell": "gru", "embedding": 8, "width": 8, "layers": 1}
CHARACTERS = train(TokenizerConfig(name="characters", type="characters"), TEXT)


def save(directory: Path, facts: Mapping[str, Any] | None = None) -> None:
    config = model_config(MODEL)
    torch.manual_seed(1)
    network = build_network(config, CHARACTERS.vocabulary, CHARACTERS.vocabulary)
    facts = {"pair": "en", "normalisation": "NFKC"} if facts is None else facts
    save_bundle(directory, network=network, config=config, tokenizers=CHARACTERS, facts=facts)


def test_what_is_saved_is_what_is_opened(tmp_path: Path) -> None:
    save(tmp_path / "bundle")
    found = load_text_bundle(tmp_path / "bundle")
    assert (found.kind, found.language, found.normalisation) == ("language", "en", "NFKC")
    assert found.positions is None and found.tokenizer.vocabulary == CHARACTERS.vocabulary
    assert found.tokenizer.serialise() == CHARACTERS.serialise()
    torch.manual_seed(1)
    fresh = build_network(found.config, CHARACTERS.vocabulary, CHARACTERS.vocabulary)
    for name, value in found.language_network.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name])
    with pytest.raises(UserError, match="a bundle of the kind 'language'; one of the kind 'masked' is needed here"):
        load_text_bundle(tmp_path / "bundle", "masked")
