"""Bundles of recurrent translation networks."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import open_translator
from dragoman.model.networks.architectures import model_config
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordTokenizer
from tests.model.networks.examples import RECURRENT, translation


def words() -> TokenizerPair:
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *(f"w{i}" for i in range(40))])
    return TokenizerPair(tokenizer, tokenizer)


def save(folder: Path, name: str) -> Path:
    ours = translation(name, 46)
    facts = {"pair": "en-de", "decode": {"beam": 3, "max_ratio": 0.0, "max_extra": 6}}
    save_bundle(folder, network=ours, config=ours.config, tokenizers=words(), facts=facts)
    return folder


@pytest.mark.parametrize("name", ["fixed", "output, additive", "feeding, scaled, rnn"])
def test_a_bundle_comes_back_and_is_served_by_pytorch(name: str, tmp_path: Path) -> None:
    bundle = load_bundle(save(tmp_path / "b", name))
    ours = translation(name, 46)
    assert bundle.config == ours.config
    for key, value in ours.state_dict().items():
        assert torch.equal(value, bundle.network.state_dict()[key])
    assert bundle.network.output.weight is bundle.network.embedding_tables()["target"].weight
    translator = open_translator(bundle)
    assert translator.engine.name == "torch"
    together = translator.translate(["w1 w2 w3", "", "w7", "w5 " * 700, "unseen words alone"])
    assert [bool(answer.text) for answer in together] == [True, False, True, True, True]
    assert together[3].truncated
    assert [translator.translate([line])[0].text for line in ("w1 w2 w3", "w7")] == [together[0].text, together[2].text]
    with pytest.raises(UserError, match="no such export"):
        open_translator(bundle, "ctranslate2")


def test_a_bundle_of_one_architecture_opened_as_another_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "b", "output, additive")
    path = tmp_path / "b" / "config.json"
    record = json.loads(path.read_text())

    def opened_as(**changes: object) -> None:
        path.write_text(json.dumps({**record, **changes}))
        _ = load_bundle(tmp_path / "b").network

    opened_as()
    with pytest.raises(UserError, match="architecture 'rnnenc' does not fit its model section"):
        opened_as(architecture="rnnenc")
    with pytest.raises(UserError, match="model: unknown key: 'encoder_width'"):
        opened_as(architecture="rnnenc", model={**record["model"], "architecture": "rnnenc"})
    with pytest.raises(UserError, match=r"model\.safetensors: (no|unexpected) tensor '.*' for this configuration"):
        opened_as(architecture="rnnenc", model=asdict(model_config(RECURRENT["fixed"])))
    with pytest.raises(UserError, match=r"model\.safetensors: (no|unexpected) tensor 'score\."):
        opened_as(model={**record["model"], "attention": "dot"})
    with pytest.raises(UserError, match="has shape"):
        opened_as(model={**record["model"], "cell": "lstm"})
