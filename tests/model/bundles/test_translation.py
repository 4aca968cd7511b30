"""A bundle comes back as it was saved, and anything else is refused by name."""

import json
import random
from pathlib import Path

import pytest
import torch

from dragoman.model.bundles.network import save_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
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


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    pair = tokenizers()
    model = network(pair)
    save_bundle(tmp_path / "bundle", network=model, config=model.config, tokenizers=pair, facts=FACTS)
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


def test_the_same_bundle_has_the_same_digest(saved: Path, tmp_path: Path) -> None:
    first = load_bundle(saved).digest
    bundle = load_bundle(saved)
    save_bundle(
        tmp_path / "again", network=bundle.network, config=bundle.config, tokenizers=bundle.tokenizers, facts=FACTS
    )
    assert load_bundle(tmp_path / "again").digest == first


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model", "ct2/model.bin", "ct2/config.json"])
def test_a_tampered_or_missing_file_is_named(name: str, saved: Path) -> None:
    content = bytearray((saved / name).read_bytes())
    content[len(content) // 2] ^= 1
    (saved / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: not the file that was saved"):
        load_bundle(saved)
    (saved / name).unlink()
    with pytest.raises(UserError, match=rf"{name}: missing"):
        load_bundle(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format_version 2; this program reads 1"),
        ({"format_version": None}, "format_version None"),
        ({"architecture": "transfomer"}, r"'transfomer' is not known. Did you mean 'transformer'\? Choices"),
        ({"model": {"architecture": "transformer", "widht": 1}}, "widht"),
        ({"pair": None}, "pair"),
        ({"files": {"../evil": {"sha256": "", "bytes": 0}}}, "outside the bundle"),
        ({"files": {}}, r"model.safetensors is missing"),
        ({"vocabulary": {"source": "many"}}, "vocabulary must give"),
    ],
    ids=str,
)
def test_a_foreign_configuration_is_refused(change: dict[str, object], message: str, saved: Path) -> None:
    record = json.loads((saved / "config.json").read_text()) | change
    (saved / "config.json").write_text(
        json.dumps({key: value for key, value in record.items() if key != "pair" or value})
    )
    with pytest.raises(UserError, match=message):
        load_bundle(saved)


def test_what_is_not_a_bundle_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a bundle"):
        load_bundle(tmp_path / "nothing")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        load_bundle(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match="no format_version"):
        load_bundle(tmp_path)


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
    model = network(tokenizers(), norm="pre")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dragoman.model.bundles.directory._json", full)
    with pytest.raises(OSError, match="No space"):
        save_bundle(saved, network=model, config=model.config, tokenizers=tokenizers(), facts=FACTS)
    assert load_bundle(saved).digest == before
    assert [path.name for path in saved.parent.iterdir()] == ["bundle"]


def test_facts_are_added_without_touching_the_files(saved: Path) -> None:
    before = load_bundle(saved)
    open_bundle(saved).update_facts({"scores": {"bleu": 12.5}})
    after = load_bundle(saved)
    assert after.facts == before.facts | {"scores": {"bleu": 12.5}}
    assert after.files == before.files
    with pytest.raises(UserError, match="files cannot be facts"):
        open_bundle(saved).update_facts({"files": {}})


def test_facts_must_name_the_pair(tmp_path: Path) -> None:
    model = network(tokenizers())
    with pytest.raises(UserError, match="pair must name two languages"):
        save_bundle(tmp_path / "b", network=model, config=model.config, tokenizers=tokenizers(), facts={})
    assert list(tmp_path.iterdir()) == []
