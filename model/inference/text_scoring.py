"""The log-probability of given texts by a language model.

    log P(y) = sum over t of log softmax(z_t)[y_t],  with the end of the text among the y_t

Each text is read by itself, after the end of another (model/networks/language_network.py), and is one line, as in the
shards.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dragoman.model.bundles.language import TextBundle
from dragoman.model.decoding.lengths import fit
from dragoman.model.decoding.search import pad
from dragoman.model.inference.scoring import CUTTING, PairScore, ended_lengths, log_probabilities, measure_rows
from dragoman.model.networks.language_network import BEFORE, LanguageNetwork
from dragoman.model.settings import TooLong
from dragoman.model.text.normalise import normalise
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, Tokenizer


class TextScorer:
    """Normalises and encodes texts as the network's shards were, and scores them."""

    def __init__(self, network: LanguageNetwork, tokenizer: Tokenizer, form: str = "NFC") -> None:
        """`form` is the Unicode normalisation of the network's shards; `open_text_scorer` makes one from a bundle."""
        self.network = network
        self.tokenizer = tokenizer
        self.form = form

    def score(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int = 8192,
        too_long: TooLong = "error",
        places: Sequence[str] | None = None,
    ) -> list[PairScore]:
        """Returns one score per text, in order; an empty text is only its end. See `score_texts`."""
        encoded = self.tokenizer.encode([normalise(text, self.form) for text in texts])
        rows = [np.append(row.astype(np.int64), EOS) for row in encoded]
        return score_texts(self.network, rows, batch_tokens=batch_tokens, too_long=too_long, places=places)

    def pieces(self, score: PairScore) -> list[str]:
        """Returns the written form of each scored token."""
        return self.tokenizer.pieces(score.ids)


def open_text_scorer(bundle: TextBundle, device: str = "cpu") -> TextScorer:
    """Returns a scorer of the bundle's network."""
    return TextScorer(bundle.language_network.to(device), bundle.tokenizer, bundle.normalisation)


def score_texts(
    network: LanguageNetwork,
    texts: Sequence[np.ndarray],
    *,
    batch_tokens: int = 8192,
    too_long: TooLong = "error",
    places: Sequence[str] | None = None,
) -> list[PairScore]:
    """Returns one score per text of 1-D ids with its end, in the order of the texts.

    `batch_tokens` bounds a batch with padding (at least one text). `too_long` handles a text that exceeds the network's
    positions: `truncate` scores its beginning and its end. `places` name the texts in messages.
    """
    names = places if places is not None else [f"text {number}" for number in range(1, len(texts) + 1)]
    cut = fit(texts, network.max_positions, too_long, names, keys=CUTTING)

    def measure(rows: list[int], device: torch.device) -> Tensor:
        return text_log_probabilities(network, text_batch([cut[row] for row in rows], rows).to(device))

    values = measure_rows(network, measure, names, batch_tokens, [0] * len(cut), cut)
    return [
        PairScore(tuple(ids.tolist()), own, len(ids) < len(whole))
        for ids, own, whole in zip(cut, values, texts, strict=True)
    ]


def text_batch(texts: Sequence[np.ndarray], ids: Sequence[int]) -> TextBatch:
    """Returns a batch of texts that each begin a row: 1-D ids with their end, and the number of each."""
    inputs = [np.concatenate([[BEFORE], text[:-1]]) for text in texts]
    return TextBatch(pad(inputs), pad(texts), sum(map(len, texts)), np.asarray(ids, dtype=np.int64))


def text_log_probabilities(network: LanguageNetwork, batch: TextBatch) -> Tensor:
    """Returns (N,) float64: the log-probability of every token of the batch's texts with their ends, row after row."""
    states = network(batch)  # (B, T, D)
    real = torch.arange(states.shape[1], device=states.device) < ended_lengths(batch.targets)[:, None]  # (B, T)
    return log_probabilities(network, states[real], batch.targets[real])
