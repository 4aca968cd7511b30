"""Graphs of ONNX, computed by ONNX Runtime: the numbers of the network at batches and lengths of many sizes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dragoman.model.bundles import onnx_graphs
from dragoman.model.bundles.labelled import load_label_bundle, save_label_bundle
from dragoman.model.bundles.language import load_text_bundle, save_text_bundle
from dragoman.model.bundles.translation import load_bundle, save_bundle
from dragoman.model.inference.sentence_vectors import load_any_bundle, sentence_vectors
from dragoman.model.networks.bert import EncoderOnly, EncoderOnlyConfig
from dragoman.model.networks.heads import TransformerHead, TransformerHeadConfig, probabilities
from dragoman.model.networks.network import Network
from dragoman.model.networks.rnnlm import RecurrentLanguage, RecurrentLanguageConfig
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.tokenizer import BOS, EOS, PAD, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import train, train_pair
from dragoman.services.commands.export import main

runtime = pytest.importorskip("onnxruntime", reason="requirements-dev.lock has it")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the exporter
LINES = [
    f"{name} {verb} {thing}" for name in ("Anna", "the king") for verb in ("sees", "likes") for thing in "abcdefgh"
]
SIZES: dict[str, Any] = {"width": 16, "heads": 4, "feed_forward": 24, "dropout": 0.1}
SHAPES = [(1, 1), (2, 4), (5, 23)]  # texts, tokens of the longest


def drawn(network: Network) -> Any:
    """The network with biases and norms that are not what they are at first."""
    torch.manual_seed(3)
    for parameter in network.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return network.eval()


def batch(shape: tuple[int, int], vocabulary: int) -> NDArray[np.int64]:
    """Rows of all lengths from the longest down to 1, then PAD."""
    draw = np.random.default_rng(shape)
    ids = draw.integers(6, vocabulary, shape)
    for row, length in enumerate(draw.integers(1, shape[1] + 1, shape[0] - 1)):
        ids[row + 1, length:] = PAD
    return ids


def exported(source: Path, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record, and a session for each graph."""
    assert main(["export", "onnx", f"export.vectors={source}", f"export.output={folder}"]) == 0
    record = json.loads((folder / "onnx" / onnx_graphs.RECORD).read_text())
    return record, {name: runtime.InferenceSession(folder / "onnx" / name) for name in record["graphs"]}


def compute(session: Any, inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def close(found: NDArray[Any], expected: Any) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, np.asarray(expected), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "switches",
    [
        {},
        pytest.param(
            {"norm": "pre", "positions": "rotary", "norm_kind": "rms", "activation": "swiglu", "kv_heads": 2},
            marks=pytest.mark.long,
        ),
    ],
    ids=["bert", "modern"],
)
def test_a_masked_model_gives_vectors_and_tokens(switches: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = train(TokenizerConfig(name="bpe", type="bpe", vocabulary=60), LINES)
    config = EncoderOnlyConfig(**{**SIZES, "layers": 2, "max_positions": 24, **switches})
    network = drawn(EncoderOnly(config, tokenizer.vocabulary))
    save_text_bundle(tmp_path / "b", network=network, config=config, tokenizer=tokenizer, facts={"pair": "en"})
    record, sessions = exported(tmp_path / "b", tmp_path)
    ours = load_text_bundle(tmp_path / "b").network
    assert isinstance(ours, EncoderOnly)
    for shape in SHAPES:
        ids = batch(shape, tokenizer.vocabulary)
        found = compute(sessions["model.onnx"], {"input_ids": ids})
        with torch.no_grad():
            states = ours.encode(torch.from_numpy(ids))
            close(found["sentence_embedding"], ours.sentence(torch.from_numpy(ids)))
            logits = ours.logits(ours.guess(states))
        real = ids != PAD
        close(found["token_embeddings"][real], states.numpy()[real])
        close(found["logits"][real], logits.numpy()[real])
    from tokenizers import Tokenizer

    rows = [one.ids for one in Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json")).encode_batch(LINES[:1])]
    embedded = compute(sessions["model.onnx"], {"input_ids": np.array(rows)})["sentence_embedding"]
    close(embedded, sentence_vectors(load_any_bundle(tmp_path / "b"))(LINES[:1]))
    assert record["special"]["pad"] == PAD
    assert record["positions"] == 24


@pytest.mark.parametrize(("task", "pooling"), [("classes", "attention"), ("tags", "mean"), ("numbers", "first")])
def test_a_head_gives_probabilities(task: Any, pooling: Any, tmp_path: Path) -> None:
    tokenizer = train(TokenizerConfig(name="bpe", type="bpe", vocabulary=60), LINES)
    texts = ["1", "2.5", "7"] if task == "numbers" else ["good", "bad", "neither"]
    labels = LabelTokenizer.of(task, texts)
    config = TransformerHeadConfig(**SIZES, layers=1, max_positions=24, head=task, pooling=pooling)
    network = drawn(TransformerHead(config, tokenizer.vocabulary, labels.vocabulary))
    save_label_bundle(
        tmp_path / "b",
        network=network,
        config=config,
        tokenizers=TokenizerPair(tokenizer, labels),
        facts={"pair": "en"},
    )
    record, sessions = exported(tmp_path / "b", tmp_path)
    assert record["labels"] == ([] if task == "numbers" else ["bad", "good", "neither"])
    ours = load_label_bundle(tmp_path / "b").network
    for shape in SHAPES:
        ids = batch(shape, tokenizer.vocabulary)
        found = compute(sessions["model.onnx"], {"input_ids": ids})
        with torch.no_grad():
            expected = probabilities(ours, torch.from_numpy(ids)).numpy()
            close(found["sentence_embedding"], ours.sentence(torch.from_numpy(ids)))
        real = ids != PAD if task == "tags" else np.ones((len(ids), 1), bool)
        close(found["probabilities"][real], expected[real])


@pytest.mark.parametrize(
    ("switches", "joint"),
    [
        ({}, True),
        pytest.param(
            {"norm": "pre", "positions": "rotary", "kv_heads": 2, "tie": "none"}, False, marks=pytest.mark.long
        ),
        pytest.param(
            {"positions": "relative", "source_prefix": [9], "target_prefix": [7, 8], "norm_kind": "rms"},
            True,
            marks=pytest.mark.long,
        ),
    ],
    ids=["vaswani", "rotary", "prefixes"],
)
def test_a_translation_is_decoded_step_by_step(switches: dict[str, Any], joint: bool, tmp_path: Path) -> None:
    config = TokenizerConfig(name="bpe", type="bpe", vocabulary=60, joint=joint)
    tokenizers = train_pair(config, LINES, [line[::-1] for line in LINES])
    sizes: dict[str, Any] = {**SIZES, "encoder_layers": 1, "decoder_layers": 2, "max_positions": 32, **switches}
    network_config = TransformerConfig(**sizes)
    vocabulary = tokenizers.source.vocabulary, tokenizers.target.vocabulary
    network = drawn(Transformer(network_config, *vocabulary))
    facts = {"pair": "en-de"}
    save_bundle(tmp_path / "b", network=network, config=network_config, tokenizers=tokenizers, facts=facts, exports=())
    record, sessions = exported(tmp_path / "b", tmp_path)
    assert sorted(path.name for path in (tmp_path / "onnx").iterdir()) == sorted(
        ["encoder.onnx", "decoder.onnx", "onnx.json"]
        + (["tokenizer.json"] if joint else ["source_tokenizer.json", "target_tokenizer.json"])
    )
    ours = load_bundle(tmp_path / "b").network
    for shape in SHAPES:
        source, target = batch(shape, vocabulary[0]), batch((shape[0], 6), vocabulary[1])
        target[target == PAD] = EOS
        start = np.full((shape[0], 1), BOS)
        pair = TranslationBatch(
            source=torch.from_numpy(source),
            target_in=torch.from_numpy(np.concatenate([start, target[:, :-1]], 1)),
            target_out=torch.from_numpy(target),
            items=target.size,
            source_items=int((source != PAD).sum()),
            ids=np.arange(shape[0]),
        )
        with torch.no_grad():
            expected = ours.logits(ours(pair)).numpy()  # (B, T, V) at once
        state = compute(sessions["encoder.onnx"], {"input_ids": source})
        for place in range(target.shape[1]):
            found = compute(sessions["decoder.onnx"], {"tokens": pair.target_in[:, place].numpy(), **state})
            close(found.pop("logits"), expected[:, place])
            state = {name.removeprefix("next."): value for name, value in found.items()}
    assert record["graphs"]["decoder.onnx"]["inputs"][0] == "tokens"


def test_other_networks_and_missing_libraries_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = train(TokenizerConfig(name="bpe", type="bpe", vocabulary=60), LINES)
    config = RecurrentLanguageConfig(cell="gru", embedding=8, width=8, layers=1)
    network = RecurrentLanguage(config, tokenizer.vocabulary).eval()
    save_text_bundle(tmp_path / "b", network=network, config=config, tokenizer=tokenizer, facts={"pair": "en"})
    words = ["onnx", f"export.vectors={tmp_path / 'b'}", f"export.output={tmp_path / 'out'}"]
    assert main(["export", *words]) == 2
    assert "onnx: only Transformers are exported" in capsys.readouterr().err
    monkeypatch.setattr(onnx_graphs, "LIBRARIES", ("onnx", "no_such_library"))
    assert main(["export", *words]) == 2
    assert "onnx: needs the package no_such_library: pip install 'dragoman[onnx]'" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())
