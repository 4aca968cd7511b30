"""Texts as vectors: one vector per sentence from a trained model.

    masked encoder       the mean of its states over the real tokens (Reimers and Gurevych 2019)
    translation model    the mean of its encoder's states over the real tokens, or its fixed context vector
    word vectors         the mean of the vectors of the known words; count-based methods: their weighted sum

A text without a token, or without a known word, gets zeros.

Letters: N texts, D width of a vector.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.bundles.directory import bundle_kind
from model.bundles.language import TextBundle, load_text_bundle
from model.bundles.translation import TranslationBundle, load_bundle
from model.bundles.vectors import VectorsBundle, load_vectors
from model.decoding.search import length_batches, pad
from model.errors import UserError
from model.networks.bert import EncoderOnly
from model.networks.network import TranslationNetwork
from model.text.normalise import normalise
from model.text.tokenizer import EOS, Tokenizer
from model.word_vectors.embeddings import Embeddings
from model.word_vectors.search import is_sparse

MOST_ROWS = 1024  # texts in a batch

Floats = NDArray[np.float32]
TooLong = Literal["error", "truncate"]


class SentenceVectors(Protocol):
    """Makes vectors of texts."""

    @property
    def width(self) -> int:
        """Returns D."""

    def __call__(self, texts: Sequence[str], places: Sequence[str] | None = None) -> Floats:
        """Returns (N, D), in the order of the texts. `places` name the texts in messages."""


class NetworkVectors:
    """Vectors from a network that reads the text."""

    def __init__(
        self,
        network: EncoderOnly | TranslationNetwork,
        tokenizer: Tokenizer,
        positions: int,
        form: str = "NFC",
        *,
        batch_tokens: int = 8192,
        too_long: TooLong = "truncate",
    ) -> None:
        """`positions`: the most tokens of a text; `form`: the Unicode normalisation of the network's shards.

        `batch_tokens` bounds a batch with its padding, one text at least.
        """
        self.network = network.eval()
        self.tokenizer = tokenizer
        self.positions = positions
        self.form = form
        self.batch_tokens = batch_tokens
        self.too_long = too_long
        self.width = int(self._vectors([np.array([EOS])]).shape[1])

    def __call__(self, texts: Sequence[str], places: Sequence[str] | None = None) -> Floats:
        """Returns (N, D); reads a longer text only up to the positions, or refuses it.

        Raises:
            UserError: a text is too long under `too_long: error`.
            FloatingPointError: the network's output is not a number (its weights are broken).
        """
        encoded = self.tokenizer.encode([normalise(text, self.form) for text in texts])
        names = places if places is not None else [f"text {number}" for number in range(1, len(texts) + 1)]
        ids = [self._fit(row, name) for row, name in zip(encoded, names, strict=True)]
        found = np.zeros((len(texts), self.width), np.float32)
        filled = [row for row, tokens in enumerate(ids) if len(tokens) > 1]  # 1: only the end of sentence
        for part in length_batches([len(ids[row]) for row in filled], self.batch_tokens, MOST_ROWS):
            rows = [filled[place] for place in part]
            found[rows] = self._vectors([ids[row] for row in rows]).cpu().numpy()
        broken = np.flatnonzero(~np.isfinite(found).all(1))
        if len(broken):
            raise FloatingPointError(f"{names[broken[0]]}: the network's output is not a number")
        return found

    def _vectors(self, ids: Sequence[NDArray[np.int64]]) -> Tensor:
        device = next(self.network.parameters()).device
        with torch.inference_mode():
            return self.network.sentence(pad(ids).to(device))

    def _fit(self, tokens: NDArray[np.unsignedinteger], name: str) -> NDArray[np.int64]:
        """Adds the end of sentence, and cuts the text to the positions if needed."""
        if len(tokens) >= self.positions and self.too_long == "error":
            raise UserError(
                f"{name}: {len(tokens) + 1} tokens are more than the model's {self.positions} positions; "
                f"split it, or have its beginning read: embed.too_long=truncate"
            )
        return np.append(tokens[: self.positions - 1].astype(np.int64), EOS)


class WordVectors:
    """Vectors from the words of a text, in any order."""

    def __init__(self, embeddings: Embeddings, tokenizer: Tokenizer, form: str = "NFC") -> None:
        self.embeddings = embeddings
        self.tokenizer = tokenizer
        self.form = form
        self.width = len(embeddings) if embeddings.texts == "words" else embeddings.width

    def __call__(self, texts: Sequence[str], places: Sequence[str] | None = None) -> Floats:
        """Returns (N, D)."""
        encoded = self.tokenizer.encode([normalise(text, self.form) for text in texts])
        words = [self.tokenizer.pieces(row) for row in encoded]
        sums = self.embeddings.text_vectors(words)
        if is_sparse(sums):
            return np.asarray(sums.toarray(), np.float32)
        known = [sum(self.embeddings.row(word) is not None for word in text) for text in words]
        return (np.asarray(sums, np.float32) / np.maximum(1, known)[:, None]).astype(np.float32)


def open_sentence_vectors(
    directory: Path, device: str = "cpu", *, batch_tokens: int = 8192, too_long: TooLong = "truncate"
) -> SentenceVectors:
    """Returns the vectors' function of the bundle in `directory`; a translation model reads its source language.

    Raises:
        UserError: not a valid bundle, or that of a language model.
    """
    return sentence_vectors(load_any_bundle(directory), device, batch_tokens=batch_tokens, too_long=too_long)


def load_any_bundle(directory: Path) -> VectorsBundle | TranslationBundle | TextBundle:
    """Loads the bundle in `directory`, of whatever kind.

    Raises:
        UserError: not a valid bundle.
    """
    kind = bundle_kind(directory)
    if kind == "vectors":
        return load_vectors(directory)
    return load_bundle(directory) if kind == "translation" else load_text_bundle(directory)


def sentence_vectors(
    bundle: VectorsBundle | TranslationBundle | TextBundle,
    device: str = "cpu",
    *,
    batch_tokens: int = 8192,
    too_long: TooLong = "truncate",
) -> SentenceVectors:
    """Returns the vectors' function of a bundle; a translation model reads its source language.

    Raises:
        UserError: the bundle is that of a language model.
    """
    if isinstance(bundle, VectorsBundle):
        return WordVectors(bundle.embeddings, bundle.tokenizer.source, bundle.normalisation)
    if isinstance(bundle, TranslationBundle):
        return NetworkVectors(
            bundle.network.to(device),
            bundle.tokenizers.source,
            bundle.source_positions,
            bundle.normalisation,
            batch_tokens=batch_tokens,
            too_long=too_long,
        )
    if not isinstance(bundle.network, EncoderOnly):
        raise UserError(
            f"{bundle.directory}: a bundle of a language model, which reads in one direction only; sentence vectors "
            f"are of a masked language model, a translation model or word vectors"
        )
    return NetworkVectors(
        bundle.network.to(device),
        bundle.tokenizer,
        bundle.network.max_positions,
        bundle.normalisation,
        batch_tokens=batch_tokens,
        too_long=too_long,
    )
