"""Heads: shapes, padding that changes nothing, attention pooling by its formula, losses by torch's own."""

import numpy as np
import pytest
import torch
from torch import nn

from dragoman.model.networks.heads import (
    Head,
    RecurrentHead,
    RecurrentHeadConfig,
    TransformerHead,
    TransformerHeadConfig,
    head_loss,
    probabilities,
)
from dragoman.model.settings import LossConfig
from dragoman.model.text.labels import FIRST
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, PAD

LABELS = FIRST + 3
NONE = LossConfig(label_smoothing=0.0)
SHAPES = [(kind, head) for kind in ("transformer", "recurrent") for head in ("classes", "tags")]


def network(kind: str, head: str, pooling: str = "attention") -> Head:
    torch.manual_seed(0)
    if kind == "transformer":
        sizes = {"width": 16, "heads": 2, "feed_forward": 24, "layers": 2, "dropout": 0.0, "max_positions": 16}
        return TransformerHead(TransformerHeadConfig(head=head, pooling=pooling, **sizes), 30, LABELS).eval()  # type: ignore[arg-type]
    config = RecurrentHeadConfig(head=head, pooling=pooling, embedding=8, width=8, dropout=0.0)  # type: ignore[arg-type]
    return RecurrentHead(config, 30, LABELS).eval()


def texts(*lengths: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in enumerate(lengths):
        ids[row, : length - 1] = torch.randint(6, 30, (length - 1,), generator=generator)
        ids[row, length - 1] = EOS
    return ids


def batch(head: str, ids: torch.Tensor) -> TextBatch:
    if head == "classes":
        targets = (torch.arange(len(ids)) % 3 + FIRST)[:, None]
    else:
        targets = torch.where(ids > EOS, ids % 3 + FIRST, PAD)
        targets[:, 1] = PAD  # a further piece
    items = len(ids) if head != "tags" else int((targets != PAD).sum())
    return TextBatch(ids, targets, items, np.arange(len(ids)))


@pytest.mark.parametrize(("kind", "head"), SHAPES)
@pytest.mark.parametrize("pooling", ["mean", "first", "attention"])
def test_padding_changes_no_answer(kind: str, head: str, pooling: str) -> None:
    made, ids = network(kind, head, pooling), texts(5, 9)
    with torch.no_grad():
        together, alone = probabilities(made, ids), probabilities(made, ids[:1, :5])
    assert together.shape[1:] == (9 if head == "tags" else 1, 3)
    torch.testing.assert_close(together[:1, : alone.shape[1]], alone, rtol=1e-4, atol=1e-5)


def test_attention_pooling_is_its_formula() -> None:
    made, ids = network("recurrent", "classes"), texts(4)
    assert made.pool is not None
    states = made.encode(ids)[0]  # (T, D)
    keys = made.pool.key
    assert isinstance(keys, nn.Linear) and isinstance(made.pool.query, nn.Parameter)
    weights = torch.softmax(torch.tanh(states @ keys.weight.T + keys.bias) @ made.pool.query, 0)
    torch.testing.assert_close(made.read(ids)[0, 0], weights @ states)


@pytest.mark.parametrize(("kind", "head"), SHAPES)
def test_the_loss_is_torchs_own_and_teaches(kind: str, head: str) -> None:
    made, given = network(kind, head), batch(head, texts(5, 8, 3, 6))
    scores = made.logits(made(given))
    kept = given.targets != PAD
    wanted = nn.functional.cross_entropy(scores[kept], given.targets[kept] - FIRST, reduction="sum")
    loss, nll = head_loss(made, given, NONE)
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(nll, wanted)
    torch.testing.assert_close(head_loss(made, given.padded_to(16), NONE)[0], wanted, rtol=1e-4, atol=1e-4)
    optimizer = torch.optim.Adam(made.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        head_loss(made.train(), given, NONE)[0].backward()
        optimizer.step()
    assert all(p.grad is not None for p in made.parameters()), "DDP needs a gradient of each parameter"
    assert head_loss(made.eval(), given, NONE)[0] < 0.2 * wanted
