"""The loss on held-out batches, summed over all ranks."""

from collections.abc import Iterable

import torch

from dragoman.model.networks.architectures import Loss
from dragoman.model.networks.network import Network
from dragoman.model.precision import autocast_dtype
from dragoman.model.settings import LossConfig, Precision
from dragoman.model.text.text_batch import Batch
from dragoman.pipelines.cluster.ranks import Ranks


def validation_loss(
    network: Network, objective: tuple[Loss, LossConfig], batches: Iterable[Batch], precision: Precision, ranks: Ranks
) -> tuple[float, int]:
    """Returns (mean negative log-likelihood in nats per token, tokens) over every rank's batches."""
    loss, config = objective
    network.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=ranks.device)
    dtype = autocast_dtype(precision)
    with torch.no_grad(), torch.autocast(ranks.device.type, dtype, enabled=dtype is not None):
        for batch in batches:
            sums[0] += loss(network, batch.to(ranks.device), config)[0]
            sums[1] += batch.items
    total, items = ranks.sum(sums).tolist()
    network.train()
    return total / max(items, 1.0), int(items)
