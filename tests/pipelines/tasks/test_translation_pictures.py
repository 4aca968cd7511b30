"""A translation run shows its samples and its attention, whatever stands in the texts."""

from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.networks.rnnenc import EncoderDecoder, EncoderDecoderConfig
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.evaluation.metrics import Sample
from dragoman.pipelines.tasks.translation_release import samples_picture, save_pictures

LINES = ["the dog sees the man .", "a house is old .", "der hund sieht den mann .", "ja , gut !"]
SAMPLES = [
    Sample(1, LINES[0], LINES[2], LINES[2], 100.0),
    Sample(2, "costs $5 or $6 \x1b[31m\x00 " + "long " * 60, "\u202eabc", "", 0.0),
    Sample(3, "𒀀 ญี่ปุ่น", LINES[3], "ja !", 20.0),
]


def make(folder: Path, attention: bool) -> TranslationBundle:
    tokenizers = train_pair(TokenizerConfig(type="bpe", vocabulary=60), LINES, LINES)
    size = tokenizers.source.vocabulary
    torch.manual_seed(1)
    config: TransformerConfig | EncoderDecoderConfig
    network: TranslationNetwork
    if attention:
        config = TransformerConfig(width=16, heads=2, feed_forward=16, encoder_layers=1, decoder_layers=2)
        network = Transformer(config, size, size)
    else:
        config = EncoderDecoderConfig(embedding=8, width=8)
        network = EncoderDecoder(config, size, size)
    facts = {"pair": "en-de", "manifest_hash": "ab" * 32, "run": {"id": "r", "name": "r"}, "decode": {}}
    save_bundle(folder, network=network.eval(), config=config, tokenizers=tokenizers, facts=facts, exports=())
    return load_bundle(folder)


@pytest.mark.parametrize(("attention", "names"), [(True, ["samples.png", "attention.png"]), (False, ["samples.png"])])
def test_samples_and_attention_are_drawn(attention: bool, names: list[str], tmp_path: Path) -> None:
    files = save_pictures(SAMPLES, make(tmp_path / "bundle", attention), tmp_path / "pictures")
    assert [file.name for file in files] == names
    assert all(file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size > 3000 for file in files)


def test_without_samples_there_is_nothing_to_see(tmp_path: Path) -> None:
    assert save_pictures([], make(tmp_path / "bundle", False), tmp_path / "pictures") == []
    assert not (tmp_path / "pictures").exists()


def test_a_samples_text_is_shown_as_it_is() -> None:
    shown = [text.get_text() for text in samples_picture(SAMPLES).texts]
    assert LINES[0] in shown and LINES[2] in shown
    assert "–" in shown  # an empty translation
    assert all(text.isprintable() for text in shown)
