"""A network's loss on each token, in nats, and its prediction."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dragoman.model.layers.losses import CHUNK_ROWS
from dragoman.model.networks.network import Network
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD


class TokenLosses(NamedTuple):
    """The losses of the scored tokens, in the order of the batch."""

    rows: NDArray[np.int64]  # (n,) row of each
    columns: NDArray[np.int64]  # (n,)
    nll: NDArray[np.float64]  # (n,) nats
    predictions: NDArray[np.int64]  # (n,) the likeliest token


def token_losses(network: Network, batch: TextBatch) -> TokenLosses:
    """Scores every target of the batch that is not PAD, in evaluation mode. Pass a stream's batches in order."""
    device = next(network.parameters()).device
    batch = batch.to(device)
    with torch.inference_mode():
        states = network(batch)  # (B, T, D)
        rows, columns = (batch.targets != PAD).nonzero(as_tuple=True)  # (n,)
        wanted = batch.targets[rows, columns]
        states = states[rows, columns]  # (n, D)
        nll, predictions = [], []
        for part, target in zip(torch.split(states, CHUNK_ROWS), torch.split(wanted, CHUNK_ROWS), strict=True):
            logits = network.logits(part).float()  # (c, V)
            nll.append(nn.functional.cross_entropy(logits, target, reduction="none").double())
            predictions.append(logits.argmax(1))
    return TokenLosses(
        rows.cpu().numpy(), columns.cpu().numpy(), torch.cat(nll).cpu().numpy(), torch.cat(predictions).cpu().numpy()
    )


def stream_nll(network: Network, batches: Iterable[TextBatch], tokens: int) -> NDArray[np.float64]:
    """Returns (N,) nats of each token of a text, from batches that score each token once; their `ids` are positions."""
    found = np.full(tokens, np.nan)
    for batch in batches:
        one = token_losses(network, batch)
        found[batch.ids[one.rows] + one.columns] = one.nll
    return found
