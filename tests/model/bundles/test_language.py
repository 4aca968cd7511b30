"""The bundle of a language model: saved whole, opened as what it is and as nothing else."""

import json
from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.networks.architectures import any_network, model_config
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train

TEXT = ["the cat sat on the mat", "a dog sat on the cat"]
MODEL = {"architecture": "rnnlm", "cell": "gru", "embedding": 8, "width": 8, "layers": 1}
CHARACTERS = train(TokenizerConfig(name="characters", type="characters"), TEXT)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    config = model_config(MODEL)
    torch.manual_seed(1)
    network = any_network(config, CHARACTERS.vocabulary, CHARACTERS.vocabulary)
    facts = {"pair": "en", "normalisation": "NFKC"}
    save_bundle(tmp_path / "bundle", network=network, config=config, tokenizers=CHARACTERS, facts=facts)
    return tmp_path / "bundle"


def test_what_is_saved_is_what_is_opened(bundle: Path) -> None:
    found = load_text_bundle(bundle)
    assert (found.kind, found.language, found.normalisation) == ("language", "en", "NFKC")
    assert found.positions is None and found.tokenizer.vocabulary == CHARACTERS.vocabulary
    assert found.tokenizer.serialise() == CHARACTERS.serialise()
    assert bundle_kind(bundle) == "language"
    torch.manual_seed(1)
    fresh = any_network(found.config, CHARACTERS.vocabulary, CHARACTERS.vocabulary)
    for name, value in found.language_network.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name])
    open_bundle(bundle).update_facts({"scores": {"valid": {"nats": 2.0}}})
    assert load_text_bundle(bundle).facts["scores"]["valid"]["nats"] == 2.0


def test_a_bundle_of_one_kind_is_no_other(bundle: Path) -> None:
    with pytest.raises(
        UserError, match="a bundle of the kind 'language'; one of the kind 'translation' is needed here"
    ):
        load_bundle(bundle)
    with pytest.raises(UserError, match="a bundle of the kind 'language'; one of the kind 'masked' is needed here"):
        load_text_bundle(bundle, "masked")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": 99}, "its tokenizer has"),
        ({"vocabulary": "many"}, "must be whole numbers"),
        ({"architecture": "transformer"}, "does not fit its model section"),
        ({"model": {**MODEL, "layers": 3}}, "for this configuration"),
    ],
)
def test_a_changed_record_is_refused(bundle: Path, changes: dict[str, object], message: str) -> None:
    record = json.loads((bundle / "config.json").read_text())
    (bundle / "config.json").write_text(json.dumps({**record, **changes}))
    with pytest.raises(UserError, match=message):
        _ = load_text_bundle(bundle).network


def test_facts_need_a_language_and_no_name_of_the_bundles_own(tmp_path: Path) -> None:
    config = model_config(MODEL)
    network = any_network(config, CHARACTERS.vocabulary, CHARACTERS.vocabulary)
    for facts, message in [({}, "must name the language"), ({"pair": "en", "positions": 3}, "positions cannot be")]:
        with pytest.raises(UserError, match=message):
            save_bundle(tmp_path / "b", network=network, config=config, tokenizers=CHARACTERS, facts=facts)
    assert not (tmp_path / "b").exists()
