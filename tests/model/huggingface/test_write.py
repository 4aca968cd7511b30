"""Exported folders, loaded by transformers: the logits and the translations are ours."""

from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.huggingface.folder import Folder, ImportOptions
from dragoman.model.huggingface.read import read_model
from dragoman.model.huggingface.write import write_huggingface
from dragoman.model.inference.translator import open_translator
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import EOS, TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from tests import huggingface_folders as folders

transformers = pytest.importorskip("transformers")
SIZES: dict[str, Any] = {"width": 32, "heads": 4, "feed_forward": 48, "max_positions": 64}


def translation(folder: Path, joint: bool = True, **settings: Any) -> TranslationBundle:
    tokenizers = train_pair(
        TokenizerConfig(vocabulary=70, joint=joint, type="unigram"), folders.ENGLISH, folders.GERMAN
    )
    config = TransformerConfig(**SIZES, encoder_layers=2, decoder_layers=3, **settings)
    network = folders.randomise(Transformer(config, tokenizers.source.vocabulary, tokenizers.target.vocabulary))
    save_bundle(folder, network=network, config=config, tokenizers=tokenizers, facts={"pair": "en-de"}, exports=())
    return load_bundle(folder)


@pytest.mark.parametrize(
    ("joint", "settings"),
    [(True, {}), (True, {"activation": "silu", "output_bias": True}), (False, {"tie": "target", "activation": "gelu"})],
    ids=str,
)
def test_marian_translates_as_the_bundle(joint: bool, settings: dict[str, Any], tmp_path: Path) -> None:
    bundle = translation(tmp_path / "bundle", joint, **settings)
    write_huggingface(tmp_path / "model", bundle)
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "model")
    ours = open_translator(bundle, "torch")
    decode = DecodeConfig(beam=1, max_ratio=0.0, max_extra=12)
    for sentence, answer in zip(folders.ENGLISH, ours.translate(folders.ENGLISH, decode), strict=True):
        asked = tokenizer([sentence], return_tensors="pt")
        assert asked.input_ids[0].tolist() == ours.encode([sentence])[0].tolist()
        target = torch.tensor([[2, *answer.nbest[0].ids]])
        with torch.no_grad():
            logits = theirs(**asked, decoder_input_ids=target).logits
            memory = bundle.network.encode(asked.input_ids)
            state, expected = bundle.network.start(memory, 20), []
            for token in target[0]:
                step, state = bundle.network.step(token[None], state)
                expected.append(step)
            found = theirs.generate(**asked, num_beams=1, max_new_tokens=12)[0]
        assert torch.allclose(logits[0], torch.cat(expected), atol=1e-4, rtol=0)
        assert tokenizer.decode(found, skip_special_tokens=True) == answer.text


def test_an_exported_marian_is_imported_again_with_the_same_weights(tmp_path: Path) -> None:
    bundle = translation(tmp_path / "bundle")
    write_huggingface(tmp_path / "model", bundle)
    again = read_model(Folder(tmp_path / "model"), ImportOptions("en", "de")).network
    state = bundle.network.state_dict()
    for name, tensor in again.state_dict().items():
        if name not in ("output.bias", "target_embedding.weight", "source_embedding.weight", "output.weight"):
            assert torch.equal(tensor, state[name]), name


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation": "relu", "tie": False},
        {"positions": "rotary", "norm_kind": "rms", "activation": "swiglu", "kv_heads": 2},
    ],
    ids=str,
)
def test_language_models_are_loaded_with_the_same_logits(settings: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = train_pair(TokenizerConfig(vocabulary=70), folders.ENGLISH, folders.ENGLISH).source
    config = DecoderOnlyConfig(**SIZES, layers=2, **settings)
    network = folders.randomise(DecoderOnly(config, tokenizer.vocabulary))
    save_bundle(tmp_path / "bundle", network=network, config=config, tokenizers=tokenizer, facts={"pair": "en"})
    write_huggingface(tmp_path / "model", load_text_bundle(tmp_path / "bundle"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    read = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    for sentence in folders.ENGLISH:
        ids = torch.tensor([[EOS, *map(int, tokenizer.encode([sentence])[0])]])
        assert read(sentence).input_ids == ids[0].tolist()
        with torch.no_grad():
            assert torch.allclose(theirs(ids).logits[:, -1], network.read(ids, {})[0], atol=1e-4, rtol=0)


def test_switches_that_marian_has_not_are_named(tmp_path: Path) -> None:
    bundle = translation(tmp_path / "bundle", norm="pre", positions="rotary")
    with pytest.raises(UserError, match=r"model.norm=pre \(MarianMTModel has post\); model.positions=rotary"):
        write_huggingface(tmp_path / "model", bundle)
    assert not (tmp_path / "model").exists()
