"""A model of several target languages: each of its pairs is offered, and told the network by its tag."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import open_translator
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import AlignmentConfig
from dragoman.model.text.tokenizer import EOS, TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.services.commands.translate import into
from dragoman.services.models.aligning import AlignerApart, aligning_pool
from dragoman.services.models.catalogue import Catalogue, NotServedError, Served
from dragoman.services.models.loaded_model import LoadedModel, load_model
from tests.services.conftest import LINES
from tests.services.models.test_catalogue import Shelf

TAGS = ["<2de>", "<2fr>", "<bt>"]
PARTS = [
    {"name": "clean", "pair": "en-de", "tags": ["<2de>"], "records": {"train": 5}},
    {"name": "bt", "pair": "en-de", "tags": ["<2de>", "<bt>"], "records": {"train": 5}},
    {"name": "fr", "pair": "en-fr", "tags": ["<2fr>"], "records": {"train": 5}},
]

COUNT = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"count": len(set(json.loads(line)["kept"]))}))
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    tokenizers = train_pair(TokenizerConfig(vocabulary=60), LINES, LINES, tags=TAGS)
    config = TransformerConfig(width=16, heads=2, feed_forward=16, encoder_layers=1, decoder_layers=1, max_positions=32)
    size = tokenizers.source.vocabulary
    directory = tmp_path_factory.mktemp("multilingual") / "bundle"
    save_bundle(
        directory,
        network=Transformer(config, size, size).eval(),
        config=config,
        tokenizers=tokenizers,
        facts={"pair": "en-mul", "parts": PARTS},
    )
    return directory


def catalogue(bundle: Path, **settings: Any) -> tuple[Catalogue, Served]:
    shelf: Any = Shelf(load_model(bundle))
    served = Served("models:/m/1", shelf)
    return Catalogue([served], **settings), served


def test_each_pair_has_its_tags(bundle: Path) -> None:
    assert load_bundle(bundle).prefixes == {("en", "de"): "<2de> ", ("en", "fr"): "<2fr> "}


def test_the_tag_stands_before_the_line(bundle: Path) -> None:
    translator = open_translator(bundle, "torch")
    german = translator.prefixed("<2de> ")
    tags = translator.tokenizers.source.encode(["<2de>"])[0]
    for plain, tagged in zip(translator.encode(["the dog", ""]), german.encode(["the dog", ""]), strict=True):
        expected = [*tags, *plain] if len(plain) > 1 else [EOS]
        assert tagged.tolist() == expected
    assert german.translate(["the dog sees"]) == translator.translate(["<2de> the dog sees"])
    assert translator.prefix == ""


def test_every_pair_is_offered_by_the_one_model(bundle: Path) -> None:
    models, served = catalogue(bundle)
    assert models.view.pairs == (("en", "de"), ("en", "fr"))
    assert models.view.targets["en"] == ("de", "fr")
    german, french = (models.find("en", target).models[0] for target in ("de-AT", "fr"))
    assert (german.target, french.target) == ("de", "fr")
    assert german is models.find("en", "de").models[0]  # requests are batched by the object
    expected = open_translator(bundle).translate(["<2fr> the dog sees the man ."])[0].text
    assert french.translate(["the dog sees the man ."], 1)[0].text == expected
    with pytest.raises(NotServedError, match="cs is not supported"):
        models.find("en", "cs")
    assert served.requests == 3


def test_attention_is_over_the_words_and_not_the_tag(bundle: Path) -> None:
    served: LoadedModel = load_model(bundle).into("en", "de").aligning
    (answer,) = served.translate(["the dog sees"], 1)
    (found,) = answer.attention
    assert list(found.source_tokens[:3]) == ["the", "dog", "sees"]
    assert not any("<2de>" in word for word in found.source_tokens)
    assert np.allclose(found.weights.sum(-1), 1.0, atol=1e-4)


def test_a_process_of_its_own_shows_the_same_attention(bundle: Path) -> None:
    with contextlib.closing(aligning_pool()) as apart:
        served, lines = load_model(bundle, apart=apart).into("en", "de").aligning, ["the dog sees", "", "the man"]
        shown = served.translate(lines, 1)
        (process,) = apart._all
        process.end()  # as the system does where memory is short
        again = served.translate(lines, 1)
        assert process not in apart._all
        with pytest.raises(UserError, match="l9"):
            AlignerApart(apart, bundle, AlignmentConfig("l9"))
    for first, second, own in zip(
        shown, again, load_model(bundle).into("en", "de").aligning.translate(lines, 1), strict=True
    ):
        assert [vars(one).keys() for one in first.attention] == [vars(one).keys() for one in own.attention]
        for here, there, anew in zip(own.attention, first.attention, second.attention, strict=True):
            assert (here.source_tokens, here.target_tokens) == (there.source_tokens, there.target_tokens)
            assert np.allclose(here.weights, there.weights) and np.array_equal(there.weights, anew.weights)


def test_translate_to_chooses_the_target(bundle: Path) -> None:
    served = load_model(bundle)
    assert into(served, "fr").target == "fr"
    assert into(served, "de-CH") is into(served, "de")
    for wanted in (None, "cs"):
        with pytest.raises(UserError, match=r"translate.to=(null|cs): this model translates into de, fr; choose one"):
            into(served, wanted)


def test_a_model_of_one_pair_has_one_target(make_bundle: Any, tmp_path: Path) -> None:
    served = load_model(make_bundle(tmp_path / "one"))
    assert into(served, None) is into(served, "de") is served
    with pytest.raises(UserError, match=r"translate.to=fr: this model translates into de"):
        into(served, "fr")
