"""CTranslate2 finds the hypotheses that PyTorch finds, with the same weights."""

import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dragoman.model.bundles.ctranslate2 import export
from dragoman.model.bundles.exports import distinct
from dragoman.model.decoding.hypothesis import Hypothesis
from dragoman.model.decoding.search import decode
from dragoman.model.errors import UserError
from dragoman.model.inference.engines import CTranslate2Engine
from dragoman.model.inference.scoring import token_log_probabilities
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.batch import collate
from dragoman.model.text.tokenizer import EOS, SPECIAL_PIECES

SIZES = {"all": (80, 80), "inputs": (80, 80), "target": (70, 80), "none": (80, 60)}


def random_transformer(**settings: object) -> Transformer:
    config = TransformerConfig(
        width=32, heads=4, feed_forward=48, encoder_layers=2, decoder_layers=3, max_positions=48, **settings
    )
    network = Transformer(config, *SIZES[config.tie])
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) * 0.25
            parameter.copy_(noise + 1 if name.endswith("norm.weight") else noise)
        # the end of sentence is as likely as a good word, so that hypotheses of many lengths compete
        network.output.weight[EOS] *= 1.2
        if config.positions == "learned":  # as strong as the sinusoids, or every step looks alike and scores tie
            network.source_positions.table.mul_(3)
            network.target_positions.table.mul_(3)
    return network.eval()


def engine(network: Transformer, folder: Path, quantisation: str = "float32") -> CTranslate2Engine:
    names = [[*SPECIAL_PIECES, *(f"w{n}" for n in range(6, size))] for size in SIZES[network.config.tie]]
    export(network, folder, names[0], names[1], quantisation)  # type: ignore[arg-type]  # one of the two words
    return CTranslate2Engine(
        folder,
        *names,
        source_positions=network.max_source_positions,
        target_positions=network.max_target_positions,
        source_prefix=network.config.source_prefix,
        target_prefix=network.config.target_prefix,
        threads=2,
    )


def sources(vocabulary: int, count: int = 8) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [np.append(rng.integers(6, vocabulary, int(n)), EOS) for n in rng.integers(1, 40, count)]


def same(one: list[list[Hypothesis]], other: list[list[Hypothesis]]) -> None:
    """The same hypotheses with the same scores; one sentence of the set may have a tie that rounding breaks.

    From such a tie on the beams may go apart, so of that sentence only the best score is compared, and roughly. Of
    several hypotheses the last is not compared: which of the next ones it is may be such a tie too.
    """
    one, other = ([each[: max(1, len(each) - 1)] for each in lists] for lists in (one, other))
    lists = list(zip(one, other, strict=True))
    alike = [(x, y) for x, y in lists if [a.ids for a in x] == [b.ids for b in y]]
    assert len(alike) >= len(lists) - 1
    for x, y in alike:
        np.testing.assert_allclose([a.score for a in x], [b.score for b in y], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose([x[0].score for x, _ in lists], [y[0].score for _, y in lists], rtol=0.02)


SHAPES: list[dict[str, object]] = [
    {"norm": "pre", "activation": "relu", "positions": "sinusoidal"},
    {"norm": "post", "activation": "gelu", "positions": "learned"},
    {"norm": "pre", "tie": "target"},
    {"norm": "post", "tie": "none", "kv_heads": 1},
    {"norm": "post", "norm_kind": "rms", "positions": "rotary"},
    {"norm": "pre", "norm_kind": "rms", "activation": "swiglu", "positions": "rotary", "kv_heads": 2},
    {"activation": "silu", "output_bias": True},
    {"norm": "pre", "norm_kind": "rms", "activation": "gelu_tanh", "tie": "inputs"},
    {"norm": "pre", "source_prefix": [9], "target_prefix": [10, 11]},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def test_float32_finds_the_hypotheses_of_pytorch(shape: dict[str, object], tmp_path: Path) -> None:
    network = random_transformer(**shape)
    exported = engine(network, tmp_path / "ct2")
    inputs = sources(SIZES[network.config.tie][0])
    for config in (DecodeConfig(beam=1), DecodeConfig(beam=4, nbest=4, length_penalty=0.8)):
        same(exported.search(inputs, config), decode(network, inputs, config))


@pytest.mark.parametrize(
    "settings",
    [
        {"length_penalty": 0.0},
        {"length_penalty": 0.0, "nbest": 4},
        {"length_penalty": 1.5, "patience": 2.0, "nbest": 6},
        {"min_length": 0},
        {"max_ratio": 0.3, "max_extra": 1},
        {"allow_unknown": True},
    ],
    ids=str,
)
def test_both_engines_keep_to_the_same_settings(settings: dict[str, float], tmp_path: Path) -> None:
    network = random_transformer(norm="pre")
    config = DecodeConfig(**settings)  # type: ignore[arg-type]  # each value is of its field's type
    inputs = sources(80)
    same(engine(network, tmp_path / "ct2").search(inputs, config), decode(network, inputs, config))


def test_sources_beyond_the_position_table_are_cut_or_refused_by_both_engines(tmp_path: Path) -> None:
    network = random_transformer(norm="post")
    exported = engine(network, tmp_path / "ct2")
    inputs = [np.append(np.full(200, 9), EOS), *sources(80, 3)]
    same(exported.search(inputs, DecodeConfig()), decode(network, inputs, DecodeConfig()))
    with pytest.raises(UserError, match=r"201 tokens, .* 48 source positions"):
        exported.search(inputs, DecodeConfig(too_long="error"))


def test_int8_is_smaller_and_scores_close_to_float32(tmp_path: Path) -> None:
    network = random_transformer(norm="pre")
    exact, rough = engine(network, tmp_path / "ct2"), engine(network, tmp_path / "ct2-int8", "int8")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("ct2", "ct2-int8")]
    assert sizes[1] < 0.5 * sizes[0]
    config = DecodeConfig(beam=1, max_ratio=0.0, max_extra=40)  # the end of sentence has a place behind them
    errors = {}
    for name, one in (("exact", exact), ("int8", rough)):
        found = zip(sources(80, 16), one.search(sources(80, 16), config), strict=True)
        errors[name] = [
            abs(best.log_probability - log_probability(network, source, best, config)) / best.length
            for source, (best,) in found
        ]
    assert max(errors["exact"]) < 1e-4
    # What it finds may differ wholly, and does where a processor's products of int8 saturate (AVX2): random weights are
    # the hardest case, and trained ones are gated on chrF. But what it says of its own words must be about true.
    assert 1e-4 < np.mean(errors["int8"]) < 0.2  # 0.008 with VNNI, 0.08 with AVX2; by other weights 0.4 and more


def log_probability(network: Transformer, source: np.ndarray, found: Hypothesis, config: DecodeConfig) -> float:
    """What the network itself gives the words that were found."""
    batch = collate([source], [np.append(found.ids, EOS)], [0])
    with torch.no_grad():
        return float(token_log_probabilities(network, batch, config)[: found.length].sum())


def test_equal_token_names_are_told_apart() -> None:
    assert distinct(["a", "b", "a", "c"]) == ["a", "b", "a\t2", "c"]


def test_an_interrupted_search_leaves_what_has_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = engine(random_transformer(), tmp_path / "ct2")
    heard, released = threading.Event(), threading.Event()
    searched = []

    def interrupt(*_: object) -> None:
        if not heard.is_set():
            heard.set()
            raise KeyboardInterrupt

    def search(tokens: list[list[str]], **_: object) -> list[object]:
        searched.append(tokens)
        if len(searched) == exported.threads:
            while not heard.is_set():  # in the moment before the main thread begins to wait, none is heard
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                heard.wait(1)
        released.wait(60)
        return []

    monkeypatch.setattr(exported, "translator", SimpleNamespace(translate_batch=search))
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            exported.search(sources(80), DecodeConfig(batch_tokens=1))
    finally:
        signal.signal(signal.SIGINT, before)
    released.set()
    exported.pool.shutdown()
    assert len(searched) == exported.threads
