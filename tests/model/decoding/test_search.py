"""Greedy and beam search against each other, against a full forward pass and against an exhaustive search."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.model.decoding.beam import best_candidates
from dragoman.model.decoding.hypothesis import Hypothesis
from dragoman.model.decoding.lengths import length_batches
from dragoman.model.decoding.search import decode, pad
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.network import Memory, State, TranslationNetwork
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.settings import DecodeConfig, Side
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import BOS, EOS, PAD, UNK

WORDS = 40  # vocabulary, specials included


class Recurrent(TranslationNetwork):
    """The least network that keeps the contract: a recurrent state and the mean of the source."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.max_source_positions = self.max_target_positions = 64
        self.embedding = nn.Embedding(vocabulary, 8)
        self.cell = nn.GRUCell(8, 8)
        self.output = nn.Linear(8, vocabulary)

    def forward(self, batch: TranslationBatch) -> Tensor:
        state = self.start(self.encode(batch.source), batch.target_in.shape[1])
        states = []
        for tokens in batch.target_in.unbind(1):
            state = {"hidden": self.cell(self.embedding(tokens), state["hidden"])}
            states.append(state["hidden"])
        return torch.stack(states, 1)

    def encode(self, source: Tensor) -> Memory:
        return Memory(self.embedding(source), source != PAD)

    def start(self, memory: Memory, max_steps: int) -> State:
        weights = memory.real[:, :, None].float()
        return {"hidden": (memory.states * weights).sum(1) / weights.sum(1)}

    def embedding_tables(self) -> dict[Side, nn.Embedding]:
        return {"source": self.embedding, "target": self.embedding}

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        hidden = self.cell(self.embedding(tokens), state["hidden"])
        return self.logits(hidden), {"hidden": hidden}


def transformer(vocabulary: int = WORDS) -> TranslationNetwork:
    config = TransformerConfig(width=16, heads=2, feed_forward=24, encoder_layers=2, decoder_layers=2, max_positions=64)
    return Transformer(config, vocabulary, vocabulary)


def built(architecture: str, **settings: object) -> TranslationNetwork:
    recurrent = {"embedding": 8, "width": 12} if architecture.startswith("rnn") else {}
    values = {"architecture": architecture, "max_positions": 64, **recurrent, **settings}
    return build_network(model_config(values), WORDS, WORDS)


def spread(network: TranslationNetwork, seed: int = 3) -> TranslationNetwork:
    """Weights from a seed, with output that is neither flat nor endless."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        network.output.bias = nn.Parameter(torch.zeros(network.output.out_features))
        network.output.bias[EOS] = 1.5
    return network.eval()


NETWORKS = {
    "recurrent": lambda: spread(Recurrent(WORDS)),
    "transformer": lambda: spread(transformer()),
    "prefix": lambda: spread(built("prefixlm", width=16, heads=2, feed_forward=24, layers=2, max_positions=128)),
    "rnnenc": lambda: spread(built("rnnenc", feed_context=True)),
    "rnnsearch, feeding": lambda: spread(built("rnnsearch", encoder_width=6, context="feeding")),
}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> TranslationNetwork:
    made: TranslationNetwork = NETWORKS[request.param]()
    return made


def sources(count: int = 8, seed: int = 0) -> list[np.ndarray]:
    """Of 1 to 20 tokens, the end of sentence included."""
    rng = np.random.default_rng(seed)
    return [np.append(rng.integers(6, WORDS, int(n)), EOS) for n in rng.integers(0, 20, count)]


def log_probabilities(
    network: TranslationNetwork, source: np.ndarray, ids: Sequence[int], config: DecodeConfig
) -> Tensor:
    """(T, V) under teacher forcing, without a cache, with the forbidden tokens taken out."""
    target = torch.tensor([[BOS, *ids]])[:, : network.max_target_positions]
    batch = TranslationBatch(pad([source]), target, target, 0, np.zeros(1, np.int64))
    with torch.no_grad():
        logits = network.logits(network(batch))[0]
    logits[:, config.forbidden()] = -torch.inf
    logits[: config.min_length, EOS] = -torch.inf
    return logits.log_softmax(-1)


def close(one: Sequence[Sequence[Hypothesis]], other: Sequence[Sequence[Hypothesis]]) -> None:
    assert [[h.ids for h in each] for each in one] == [[h.ids for h in each] for each in other]
    flat = [[h.score for each in side for h in each] for side in (one, other)]
    np.testing.assert_allclose(flat[0], flat[1], atol=1e-4)


def test_beam_of_one_equals_greedy(network: TranslationNetwork) -> None:
    from dragoman.model.decoding.beam import beam_search
    from dragoman.model.decoding.search import greedy_search

    config = DecodeConfig(beam=1, length_penalty=0.6)
    source = pad(sources())
    limits = [config.longest(20, 64)] * len(source)
    with torch.inference_mode():
        greedy = greedy_search(network, source, limits, config)
        beam = beam_search(network, source, limits, config)
    close(greedy, beam)


@pytest.mark.parametrize("beam", [1, 4])
def test_cached_scores_equal_a_full_forward_pass(network: TranslationNetwork, beam: int) -> None:
    config = DecodeConfig(beam=beam, nbest=beam, length_penalty=0.0, patience=1.0)
    for source, hypotheses in zip(sources(), decode(network, sources(), config), strict=True):
        for one in hypotheses:
            table = log_probabilities(network, source, one.ids, config)
            generated = [*one.ids, EOS] if one.ended else list(one.ids)
            expected = sum(table[step, token].item() for step, token in enumerate(generated))
            assert one.log_probability == pytest.approx(expected, abs=1e-3)


def test_greedy_takes_the_likeliest_token_at_each_step(network: TranslationNetwork) -> None:
    config = DecodeConfig(beam=1)
    for source, (one,) in zip(sources(), decode(network, sources(), config), strict=True):
        table = log_probabilities(network, source, one.ids, config)
        generated = [*one.ids, EOS] if one.ended else list(one.ids)
        assert generated == table.argmax(-1)[: len(generated)].tolist()


@pytest.mark.parametrize("beam", [1, 5])
def test_a_batch_equals_one_by_one(network: TranslationNetwork, beam: int) -> None:
    config = DecodeConfig(beam=beam, nbest=beam, batch_tokens=150)
    together = decode(network, sources(), config)
    close(together, [decode(network, [source], config)[0] for source in sources()])


def test_nbest_is_sorted_and_distinct(network: TranslationNetwork) -> None:
    for hypotheses in decode(network, sources(), DecodeConfig(beam=6, nbest=6)):
        scores = [one.score for one in hypotheses]
        assert len(hypotheses) == 6
        assert scores == sorted(scores, reverse=True)
        assert len({(one.ids, one.ended) for one in hypotheses}) == 6


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_a_beam_that_leaves_nothing_out_finds_the_best_of_all_translations(kind: str, alpha: float) -> None:
    """Against an enumeration of all of them, for many random networks; the beam is as wide as the last step."""
    longest, words = 4, (6, 7, 8)
    config = DecodeConfig(
        beam=len(words) ** (longest - 1) * (len(words) + 1), nbest=10, length_penalty=alpha, max_ratio=0.0,
        max_extra=longest, batch_tokens=10**6,
    )  # fmt: skip
    inputs = [np.array([6, 7, EOS]), np.array([8, EOS]), np.array([EOS])]
    for seed in range(8):
        tiny = spread(Recurrent(9) if kind == "recurrent" else transformer(9), seed)
        for source, found in zip(inputs, decode(tiny, inputs, config), strict=True):
            best = exhaustive(tiny, source, words, longest, config)[:10]
            assert [(one.ids, one.ended) for one in found] == [(ids, ended) for _, ids, ended in best], seed
            np.testing.assert_allclose([one.score for one in found], [score for score, _, _ in best], atol=1e-4)


def exhaustive(
    network: TranslationNetwork, source: np.ndarray, words: Sequence[int], longest: int, config: DecodeConfig
) -> list[tuple[float, tuple[int, ...], bool]]:
    """(score, ids, ended) of every translation of at most `longest` tokens, best first."""
    rows = list(itertools.product(words, repeat=longest))  # every other one is the beginning of one of these
    target = torch.tensor([[BOS, *ids] for ids in rows])  # (R, T + 1)
    batch = TranslationBatch(pad([source] * len(rows)), target, target, 0, np.zeros(len(rows), np.int64))
    with torch.no_grad():
        logits = network.logits(network(batch))  # (R, T + 1, V)
    logits[:, :, config.forbidden()] = -torch.inf
    logits[:, : config.min_length, EOS] = -torch.inf
    table = logits.log_softmax(-1).double().numpy()
    found: dict[tuple[tuple[int, ...], bool], float] = {}
    for row, ids in enumerate(rows):
        total = np.cumsum([0.0, *(table[row, step, token] for step, token in enumerate(ids))])
        for length in range(config.min_length, longest):  # the end of sentence still fits
            found[ids[:length], True] = (total[length] + table[row, length, EOS]) / (length + 1) ** config.alpha
        found[ids, False] = total[longest] / longest**config.alpha
    return sorted(((score, *key) for key, score in found.items()), reverse=True)


def test_special_tokens_are_never_generated(network: TranslationNetwork) -> None:
    with torch.no_grad():
        network.output.bias[[0, 1, 2, 4, 5]] = 30.0
    for beam in (1, 4):
        for hypotheses in decode(network, sources(), DecodeConfig(beam=beam)):
            assert all(token > 5 for one in hypotheses for token in one.ids)
        allowed = decode(network, sources(), DecodeConfig(beam=beam, allow_unknown=True))
        assert any(UNK in one.ids for hypotheses in allowed for one in hypotheses)


def test_translations_stop_at_the_limit_unended(network: TranslationNetwork) -> None:
    with torch.no_grad():
        network.output.bias[EOS] = -50.0
    short, long = np.array([6, EOS]), np.array([*[7] * 17, EOS])
    for beam in (1, 3):
        config = DecodeConfig(beam=beam, max_ratio=0.5, max_extra=2)
        (a, *_), (b, *_) = decode(network, [short, long], config)
        assert (a.length, b.length) == (10, 18)  # 16 and 32 tokens rounded up, halved, and two more
        assert not a.ended
        assert not b.ended


def test_limits_never_pass_the_position_table(network: TranslationNetwork) -> None:
    with torch.no_grad():
        network.output.bias[EOS] = -50.0
    for beam in (1, 3):
        (found,) = decode(network, [np.array([6, EOS])], DecodeConfig(beam=beam, max_extra=500))
        assert found[0].length == 64


def test_empty_lonely_and_unknown_sources_decode(network: TranslationNetwork) -> None:
    config = DecodeConfig(beam=3)
    odd = [np.array([EOS]), np.array([9, EOS]), np.array([UNK, UNK, EOS])]
    assert all(np.isfinite(found[0].score) for found in decode(network, odd, config))
    assert decode(network, [], config) == []


def test_the_first_token_may_be_the_end_only_when_allowed(network: TranslationNetwork) -> None:
    with torch.no_grad():
        network.output.bias[EOS] = 60.0
    for beam in (1, 3):
        assert len(decode(network, sources(2), DecodeConfig(beam=beam))[0][0].ids) == 1
        assert decode(network, sources(2), DecodeConfig(beam=beam, min_length=0))[0][0].ids == ()


def test_a_source_beyond_the_positions_is_cut_or_refused(network: TranslationNetwork) -> None:
    long = np.array([*[8] * 100, EOS])
    cut = np.array([*[8] * 63, EOS])
    close(decode(network, [long], DecodeConfig()), decode(network, [cut], DecodeConfig()))
    with pytest.raises(UserError, match=r"sentence 2: the source has 101 tokens, .* 64 source positions"):
        decode(network, [cut, long], DecodeConfig(too_long="error"))


def test_a_network_that_computes_no_numbers_is_reported() -> None:
    broken = spread(Recurrent(WORDS))
    with torch.no_grad():
        broken.output.bias.fill_(torch.nan)
    for beam in (1, 3):
        with pytest.raises(FloatingPointError, match="not a number"):
            decode(broken, sources(2), DecodeConfig(beam=beam))


def test_the_training_mode_is_put_back() -> None:
    network = spread(Recurrent(WORDS)).train()
    decode(network, sources(2), DecodeConfig())
    assert network.training


def test_two_round_selection_equals_one_sort() -> None:
    generator = torch.Generator().manual_seed(5)
    for vocabulary in (7, 64, 65, 200, 1000):
        logits = torch.randn(3 * 4, vocabulary, generator=generator)
        logits[:, 2] = -torch.inf
        totals = torch.randn(3, 4, generator=generator)
        totals[1, 2:] = -torch.inf
        expected = (logits.log_softmax(-1).view(3, 4, -1) + totals[:, :, None]).flatten(1).topk(8, 1)
        scores, beams, words = best_candidates(logits, totals, 8)
        torch.testing.assert_close(scores, expected.values)
        assert torch.equal(beams * vocabulary + words, expected.indices)


def test_batches_hold_like_lengths_within_the_budget() -> None:
    lengths = [3, 9, 1, 9, 20, 2]
    batches = list(length_batches(20, 10, lengths))
    assert sorted(itertools.chain(*batches)) == list(range(6))
    assert batches == [[4], [1, 3], [0, 5, 2]]
    assert list(length_batches(20, 10, [50])) == [[0]]
    assert list(length_batches(20, 2, [1, 1, 1])) == [[0, 1], [2]]
    assert list(length_batches(20, 9, [3, 9, 2], [8, 1, 8])) == [[1], [0], [2]], "of pairs both sides count"
