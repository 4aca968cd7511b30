"""Predicts the masked tokens of a text with a masked network (Devlin et al. 2019)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.model.decoding.search import pad
from dragoman.model.errors import UserError
from dragoman.model.networks.network import Network
from dragoman.model.text.normalise import normalise
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, MASK, PAD, SPECIAL, SPECIAL_PIECES, Tokenizer

MASK_WORD = SPECIAL_PIECES[MASK]  # a mask as text: <mask>
ROWS = 64  # of a batch


class Prediction(NamedTuple):
    """One candidate token for a mask."""

    piece: str  # as the vocabulary writes it
    probability: float


class Filled(NamedTuple):
    """A text with its masks filled."""

    text: str  # with the likeliest token for each mask
    predictions: list[list[Prediction]]  # for each mask, the likeliest first


def fill_masks(
    network: Network, tokenizer: Tokenizer, texts: Sequence[str], best: int = 5, form: str = "NFC"
) -> list[Filled]:
    """Fills the masks of each text (`<mask>`, one per token); predicts all masks of a text at once.

    `form` is the Unicode normalisation of the network's shards. Special ids are never predicted.
    """
    rows = [masked_ids(tokenizer, text, form) for text in texts]
    most = getattr(network, "max_positions", None)
    for number, row in enumerate(rows):
        if most is not None and len(row) > most:
            raise UserError(f"text {number + 1}: {len(row)} tokens, the network has {most} positions; shorten it")
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    filled: list[Filled | None] = [None] * len(rows)
    for first in range(0, len(order), ROWS):
        numbers = order[first : first + ROWS]
        batch = _predictions(network, tokenizer, [rows[number] for number in numbers], best)
        for number, of_masks in zip(numbers, batch, strict=True):
            text = _fill_row(tokenizer, rows[number], of_masks)
            filled[number] = Filled(text, [[candidate for _, candidate in of_mask] for of_mask in of_masks])
    return [row for row in filled if row is not None]


def masked_ids(tokenizer: Tokenizer, text: str, form: str = "NFC") -> list[int]:
    """Returns the ids of a text with masks, with the end of sentence."""
    begin, *rest = text.split(MASK_WORD)
    ids = tokenizer.encode([normalise(begin, form)])[0].tolist()
    for part in rest:
        encode = tokenizer.encode_after_space if part[:1].isspace() else tokenizer.encode
        ids += [MASK, *encode([normalise(part, form)])[0].tolist()]
    return [*ids, EOS]


def decode_masked(tokenizer: Tokenizer, ids: NDArray[Any]) -> str:
    """Returns tokens as text, with `<mask>` for a mask."""
    breaks = [-1, *np.flatnonzero(ids == MASK).tolist(), len(ids)]
    runs = [ids[before + 1 : after] for before, after in pairwise(breaks)]
    gap = MASK_WORD if tokenizer.type == "characters" else f" {MASK_WORD} "
    return gap.join(tokenizer.decode(runs)).strip()


def _predictions(
    network: Network, tokenizer: Tokenizer, rows: Sequence[Sequence[int]], best: int
) -> list[list[list[tuple[int, Prediction]]]]:
    """Returns row -> mask -> (id, prediction), the likeliest first."""
    inputs = pad([np.array(row) for row in rows])  # (B, T)
    device = next(network.parameters()).device
    masks = (inputs == MASK).nonzero()  # (M, 2) row and column
    targets = torch.full_like(inputs, PAD)
    batch = TextBatch(inputs, targets, 0, np.arange(len(rows), dtype=np.int64)).to(device)
    with torch.inference_mode():
        states: Tensor = network(batch)[masks[:, 0].to(device), masks[:, 1].to(device)]  # (M, D)
        logits = network.logits(states).float()
        logits[:, : len(SPECIAL)] = -torch.inf
        probabilities, ids = torch.softmax(logits, 1).topk(min(best, logits.shape[1] - len(SPECIAL)), 1)
    predictions: list[list[list[tuple[int, Prediction]]]] = [[] for _ in rows]
    for (row, _), shares, tokens in zip(masks.tolist(), probabilities.tolist(), ids.tolist(), strict=True):
        named = zip(tokens, tokenizer.pieces(tokens), shares, strict=True)
        predictions[row].append([(token, Prediction(piece, share)) for token, piece, share in named])
    return predictions


def _fill_row(tokenizer: Tokenizer, row: Sequence[int], predictions: Sequence[Sequence[tuple[int, Prediction]]]) -> str:
    likeliest = iter(prediction[0][0] for prediction in predictions)
    return tokenizer.decode([[next(likeliest) if token == MASK else token for token in row]])[0]
