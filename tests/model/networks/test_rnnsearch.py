"""RNNsearch against its equations written step by step for one sentence, in each of its forms."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.networks.network import translation_loss
from dragoman.model.networks.rnnsearch import RNNSearch, RNNSearchConfig
from dragoman.model.settings import LossConfig
from dragoman.model.text.batch import TranslationBatch, collate
from dragoman.model.text.tokenizer import EOS, PAD

SIZES = {"embedding": 6, "width": 8, "encoder_width": 4, "attention_width": 5, "dropout": 0.0}
CONTEXTS = ["output", "state", "feeding"]
SCORES = ["additive", "dot", "general", "scaled_dot"]


def network(**changes: object) -> RNNSearch:
    torch.manual_seed(0)
    made = RNNSearch(RNNSearchConfig(**{**SIZES, **changes}), 30, 30).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.5)
    return made


def batch(*sources: list[int]) -> TranslationBatch:
    targets = [[7, 8, 9, 10 + row, EOS] for row in range(len(sources))]
    rows = [[torch.tensor(row).numpy() for row in side] for side in (sources, targets)]
    return collate(*rows, list(range(len(sources))))


def gru_cell(layer: nn.Module, suffix: str, inputs: int, width: int) -> nn.GRUCell:
    cell = nn.GRUCell(inputs, width)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell.load_state_dict({name: getattr(layer, f"{name}_{suffix}") for name in names})
    return cell


def score(ours: RNNSearch, query: Tensor, annotation: Tensor) -> Tensor:
    """query (W,), annotation (A,) -> a number."""
    made, name = ours.score, ours.config.attention
    if name == "additive":
        return made.v @ torch.tanh(made.query.weight @ query + made.annotation.weight @ annotation)
    if name == "general":
        return query @ made.annotation.weight @ annotation
    return query @ annotation / (len(query) ** 0.5 if name == "scaled_dot" else 1.0)


def by_the_equations(ours: RNNSearch, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
    """What the output layer reads (T, E) and the attention weights (T, S), of one sentence, one token at a time."""
    c = ours.config
    layer = ours.encoder.layers[0]
    embedded = [ours.source_embedding.weight[token] * c.embedding**0.5 for token in source]
    sides = []
    for suffix, order in (("l0", embedded), ("l0_reverse", embedded[::-1])):
        cell, h, states = gru_cell(layer, suffix, c.embedding, c.encoder_width), torch.zeros(1, c.encoder_width), []
        for x in order:
            h = cell(x[None], h)
            states.append(h[0])
        sides.append(states)
    annotations = torch.stack([torch.cat(pair) for pair in zip(sides[0], sides[1][::-1], strict=True)])  # (S, A)
    inner = ours.decoder.layers[0]
    cell = gru_cell(inner, "l0", inner.input_size, c.width)  # type: ignore[arg-type]  # a number
    h = torch.tanh(ours.bridge(sides[1][-1]))
    read = torch.zeros(c.embedding)
    reads, maps = [], []

    def look(query: Tensor) -> Tensor:
        weights = torch.stack([score(ours, query, a) for a in annotations]).softmax(0)
        maps.append(weights)
        return weights @ annotations

    for token in target:
        y = ours.target_embedding.weight[token] * c.embedding**0.5
        if c.context == "output":
            h = cell(y[None], h[None])[0]
            parts = [h, look(h)]
        elif c.context == "state":
            vector = look(h)
            h = cell(torch.cat([y, vector])[None], h[None])[0]
            parts = [h, vector, y]
        else:
            h = cell(torch.cat([y, read])[None], h[None])[0]
            parts = [h, look(h)]
        read = torch.tanh(ours.readout(torch.cat(parts)))
        reads.append(read)
    return torch.stack(reads), torch.stack(maps)


@pytest.mark.parametrize("attention", SCORES)
@pytest.mark.parametrize("context", CONTEXTS)
def test_states_and_maps_are_the_equations(context: str, attention: str) -> None:
    """In a batch with padding, each sentence by itself."""
    ours = network(context=context, attention=attention)
    sources = [[11, 12, EOS], [13, 14, 15, 16, 17, 18, EOS], [EOS]]
    b = batch(*sources)
    with torch.no_grad():
        states, maps = ours(b), ours.attention_maps(b)["decoder.0.cross"]
        assert maps.shape == (3, 1, 5, 7)
        for row, source in enumerate(sources):
            read, weights = by_the_equations(ours, source, b.target_in[row].tolist())
            torch.testing.assert_close(states[row], read, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(maps[row, 0, :, : len(source)], weights, atol=1e-5, rtol=1e-4)
            assert not maps[row, 0, :, len(source) :].any()


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_parameter_learns(context: str) -> None:
    """DDP waits for a gradient from each."""
    for cell in ("lstm", "gru", "rnn_relu"):
        ours = network(context=context, cell=cell, decoder_layers=2, encoder_layers=2).train()
        ours(batch([11, EOS], [12, 13, 14, EOS])).sum().backward()
        idle = [name for name, p in ours.named_parameters() if p.grad is None and not name.startswith("output")]
        assert idle == []


@pytest.mark.usefixtures("one_thread")
def test_attention_learns_where_to_look() -> None:
    """The target is the source reversed: trained, the decoder looks at the token that it writes."""
    torch.manual_seed(0)
    sizes = {"embedding": 32, "width": 48, "encoder_width": 24, "attention_width": 24, "dropout": 0.0}
    ours = RNNSearch(RNNSearchConfig(**sizes), 16, 16)  # type: ignore[arg-type]  # sizes are numbers
    optimizer = torch.optim.Adam(ours.parameters(), lr=5e-3)
    rng = np.random.default_rng(0)

    def reversals(count: int) -> TranslationBatch:
        rows = [rng.integers(6, 16, rng.integers(2, 7)) for _ in range(count)]
        return collate([np.append(r, EOS) for r in rows], [np.append(r[::-1], EOS) for r in rows], range(count))

    for _ in range(120):
        b = reversals(64)
        loss, _ = translation_loss(ours, b, LossConfig(0.0))
        (loss / b.items).backward()
        nn.utils.clip_grad_norm_(ours.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    b = reversals(50)
    best = ours.eval().attention_maps(b)["decoder.0.cross"][:, 0].argmax(-1)  # (B, T)
    words = (b.target_out != PAD) & (b.target_out != EOS)
    wanted = words.sum(1, keepdim=True) - 1 - torch.arange(words.shape[1])
    assert (best == wanted)[words].float().mean() > 0.8


def test_a_dot_product_needs_one_width() -> None:
    with pytest.raises(UserError, match=r"choose model\.width = 2 x model\.encoder_width"):
        network(attention="dot", width=10)
