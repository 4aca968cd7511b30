"""Texts as vectors: one vector per sentence, or per token, from a trained model.

    masked encoder       the mean of its states over the real tokens (Reimers and Gurevych 2019)
    translation model    the mean of its encoder's states over the real tokens, or its fixed context vector
    language model       the mean of its states, each of which has read the text up to its token
    model with a head    what its label is read from, for tags the mean of its states
    word vectors         the mean of the vectors of the known words; count-based methods: their weighted sum

A text without a token, or without a known word, gets zeros.

A padded batch changes the last bits of a text's numbers, because products of other shapes add in another order. So each
text is read alone, and its bytes do not depend on its company, unless `batch_tokens` asks for batches.

Letters: N texts, T tokens of a text, D width of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.model.bundles.directory import Bundle, bundle_kind
from dragoman.model.bundles.labelled import LabelBundle
from dragoman.model.bundles.language import TextBundle
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.bundles.vectors import VectorsBundle
from dragoman.model.decoding.lengths import fit, length_batches
from dragoman.model.decoding.search import pad
from dragoman.model.errors import UserError
from dragoman.model.networks.bert import EncoderOnly
from dragoman.model.networks.heads import Head
from dragoman.model.networks.language_network import BEFORE, LanguageNetwork
from dragoman.model.networks.network import TranslationNetwork, mean_of_real
from dragoman.model.settings import TooLong
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import EOS, PAD, Tokenizer
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.search import is_sparse

MOST_ROWS = 1024  # texts in a batch

Floats = NDArray[np.float32]
Reader = EncoderOnly | TranslationNetwork | LanguageNetwork | Head


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """A text's tokens, each with the vector that it has in this text."""

    text: str  # normalised
    ids: NDArray[np.int64]  # (T,), without the end of sentence
    pieces: list[str]
    vectors: Floats  # (T, D)


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
        network: Reader,
        tokenizer: Tokenizer,
        positions: int | None,
        form: str = "NFC",
        *,
        batch_tokens: int | None = None,
        too_long: TooLong = "truncate",
        layer: int | None = None,
        section: str = "embed",
    ) -> None:
        """`positions`: the most tokens of a text; `form`: the Unicode normalisation of the network's shards.

        `batch_tokens` bounds a batch with its padding, one text at least; None reads each text alone. `layer`: its
        states, 0 for the embeddings, negative numbers from the last one; None: what represents a text in this network.
        `section`: that of the setting, for messages.
        """
        self.network = network.eval()
        self.tokenizer = tokenizer
        self.positions = positions
        self.form = form
        self.batch_tokens = batch_tokens
        self.too_long = too_long
        self.section = section
        self.forward_only = isinstance(network, LanguageNetwork)  # a text is read after the end of the one before
        self.layer = -1 if layer is None and self.forward_only else layer
        if layer is not None:
            self._check_layer(layer)  # before any text is read
        self.width = int(self._vectors([np.array([EOS])]).shape[1])

    def __call__(self, texts: Sequence[str], places: Sequence[str] | None = None) -> Floats:
        """Returns (N, D); reads a longer text only up to the positions, or refuses it.

        Raises FloatingPointError: the network's output is not a number (its weights are broken).
        """
        names = places if places is not None else [f"text {number}" for number in range(1, len(texts) + 1)]
        ids = self._encode([normalise(text, self.form) for text in texts], names)
        vectors = np.zeros((len(texts), self.width), np.float32)
        filled = [row for row, tokens in enumerate(ids) if len(tokens) > 1]  # 1: only the end of sentence
        budget, most = (0, 1) if self.batch_tokens is None else (self.batch_tokens, MOST_ROWS)
        for part in length_batches(budget, most, [len(ids[row]) for row in filled]):
            rows = [filled[place] for place in part]
            vectors[rows] = self._vectors([ids[row] for row in rows]).cpu().numpy()
        broken = np.flatnonzero(~np.isfinite(vectors).all(1))
        if len(broken):
            raise FloatingPointError(f"{names[broken[0]]}: the network's output is not a number")
        return vectors

    def tokens(self, texts: Sequence[str], places: Sequence[str] | None = None) -> list[TokenVectors]:
        """Returns each text's tokens with their vectors from `layer`, by default the last; reads each text alone.

        Raises FloatingPointError: the network's output is not a number (its weights are broken).
        """
        names = places if places is not None else [f"text {number}" for number in range(1, len(texts) + 1)]
        written = [normalise(text, self.form) for text in texts]
        token_vectors = []
        for text, ids, name in zip(written, self._encode(written, names), names, strict=True):
            own = ids[1:] if self.forward_only else ids[:-1]
            with torch.inference_mode():
                states, _ = self._states(self._batch([ids]))
            first = 1 if self.forward_only else 0
            vectors = states[0, first : first + len(own)].float().cpu().numpy()
            if not np.isfinite(vectors).all():
                raise FloatingPointError(f"{name}: the network's output is not a number")
            token_vectors.append(TokenVectors(text, own, self.tokenizer.pieces(own), vectors))
        return token_vectors

    def _vectors(self, ids: Sequence[NDArray[np.int64]]) -> Tensor:
        """Returns (B, D)."""
        batch = self._batch(ids)
        with torch.inference_mode():
            if self.layer is None and not isinstance(self.network, LanguageNetwork):
                return self.network.sentence(batch)
            return mean_of_real(*self._states(batch))

    def _states(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids (B, T) -> the layer's states (B, T, D), and which of them are of the text (B, T)."""
        real = ids != PAD
        real[:, 0] &= not self.forward_only
        return self.network.layer_states(ids)[-1 if self.layer is None else self.layer], real

    def _batch(self, ids: Sequence[NDArray[np.int64]]) -> Tensor:
        return pad(ids).to(next(self.network.parameters()).device)

    @property
    def layers(self) -> int:
        """Returns how many layers there are to choose from, with the embeddings."""
        with torch.inference_mode():
            return len(self.network.layer_states(self._batch([np.array([EOS])])))

    def _check_layer(self, layer: int) -> None:
        count = self.layers
        if not -count <= layer < count:
            raise UserError(
                f"{self.section}.layer={layer}: the network has the layers 0 (its embeddings) to {count - 1}, also "
                f"counted from the last: -1 to -{count}"
            )

    def _encode(self, texts: Sequence[str], names: Sequence[str]) -> list[NDArray[np.int64]]:
        """Returns ids with the end of sentence, of a language model with that before the text; cut to the positions."""
        rows = [np.append(row.astype(np.int64), EOS) for row in self.tokenizer.encode(texts)]
        cut = fit(rows, self.positions, self.too_long, names, keys=("too_long",))
        return [np.insert(row[:-1], 0, BEFORE) for row in cut] if self.forward_only else cut


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
        counts = [sum(self.embeddings.row(word) is not None for word in text) for text in words]
        return (np.asarray(sums, np.float32) / np.maximum(1, counts)[:, None]).astype(np.float32)


def sentence_vectors(
    bundle: Bundle,
    device: str = "cpu",
    *,
    batch_tokens: int | None = None,
    too_long: TooLong = "truncate",
    layer: int | None = None,
) -> SentenceVectors:
    """Returns the vectors' function of a bundle; a translation model reads its source language."""
    if isinstance(bundle, VectorsBundle):
        if layer is not None:
            raise no_layers(bundle.directory)
        return WordVectors(bundle.embeddings, bundle.tokenizer.source, bundle.normalisation)
    return network_vectors(bundle, device, batch_tokens=batch_tokens, too_long=too_long, layer=layer)


def network_vectors(
    bundle: Bundle,
    device: str = "cpu",
    *,
    batch_tokens: int | None = None,
    too_long: TooLong = "truncate",
    layer: int | None = None,
    section: str = "embed",
) -> NetworkVectors:
    """Returns the vectors' function of a bundle with a network, which has vectors of tokens too."""
    if isinstance(bundle, VectorsBundle):
        raise no_layers(bundle.directory)
    network: Reader
    positions: int | None
    if isinstance(bundle, TranslationBundle):
        network, tokenizer, positions = bundle.network, bundle.tokenizers.source, bundle.source_positions
    elif isinstance(bundle, TextBundle | LabelBundle) and isinstance(bundle.network, Reader):
        network, tokenizer, positions = bundle.network, bundle.tokenizer, bundle.positions
    else:
        raise UserError(
            f"{bundle.directory}: a bundle of the kind {bundle_kind(bundle.directory)!r}, which makes no vectors of "
            f"texts; those of translation, language, masked, vectors and labels do"
        )
    return NetworkVectors(
        network.to(device),
        tokenizer,
        positions,
        bundle.normalisation,
        batch_tokens=batch_tokens,
        too_long=too_long,
        layer=layer,
        section=section,
    )


def no_layers(directory: Path) -> UserError:
    """Returns the error for word vectors where a network is needed."""
    return UserError(
        f"{directory}: word vectors have no layers, and a word has one vector in every text; vectors of tokens in "
        f"their text are of a translation, masked, language or label model"
    )
