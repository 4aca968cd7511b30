"""Labels texts with a bundle: classes with their probabilities, or a tag for each word.

Answers do not depend on what else is in a batch: texts of a batch are padded to a multiple, and padding is masked.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.bundles.labelled import LabelBundle
from dragoman.model.decoding.lengths import fit, length_batches
from dragoman.model.decoding.search import pad
from dragoman.model.errors import UserError
from dragoman.model.networks.heads import probabilities
from dragoman.model.text.labelled_words import Label, TaggedWord, Words
from dragoman.model.text.labels import encode_words
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import EOS

Labels: TypeAlias = list[Label] | list[TaggedWord]
BATCH_TOKENS = 8192  # of a batch with its padding, one text at least


class Labeller:
    """The answers of one bundle."""

    def __init__(self, bundle: LabelBundle, device: str = "cpu") -> None:
        self.bundle, self.labels = bundle, bundle.labels.labels
        self.network = bundle.network.to(device)
        self.device = device

    def label(self, texts: Sequence[Words]) -> list[Labels]:
        """Returns each text's classes, the likeliest first, or its words with their tags."""
        if self.bundle.task == "tags":
            return [*self.tag(texts)]
        return [*self.classify([text.text for text in texts])]

    def classify(self, texts: Sequence[str]) -> list[list[Label]]:
        """Returns each text's labels, the likeliest first; a text longer than the positions is read up to them."""
        return [
            [Label(self.labels[place], float(row[place])) for place in np.argsort(-row, kind="stable").tolist()]
            for row in self.class_probabilities(texts)
        ]

    def class_probabilities(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns (texts, classes), in the order of the labels."""
        self._check("classes")
        return np.array([rows[0] for rows in self._read(self._encode(texts))], np.float32).reshape(len(texts), -1)

    def tag(self, texts: Sequence[Words]) -> list[list[TaggedWord]]:
        """Returns each text's words with their likeliest tags."""
        return [
            [
                TaggedWord(word, *place, self.labels[int(row.argmax())], float(row.max()))
                for word, place, row in zip(text.words, text.places, rows, strict=True)
            ]
            for text, rows in zip(texts, self.tag_probabilities([text.words for text in texts]), strict=True)
        ]

    def tag_probabilities(self, texts: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """Returns (words, tags) of each text of words, in the order of the tags."""
        self._check("tags")
        form = self.bundle.normalisation
        rows = encode_words(self.bundle.tokenizer, [[normalise(word, form) for word in words] for words in texts])
        most = self.bundle.positions
        for number, (ids, _) in enumerate(rows):
            if most is not None and len(ids) >= most:
                raise UserError(f"text {number + 1}: {len(ids) + 1} tokens, the model reads {most}; split it")
        rows_read = self._read([np.append(ids.astype(np.int64), EOS) for ids, _ in rows])
        return [states[starts] for states, (_, starts) in zip(rows_read, rows, strict=True)]

    def _check(self, task: str) -> None:
        if self.bundle.task != task:
            raise UserError(f"{self.bundle.directory}: gives {self.bundle.task} of a text, not {task}")

    def _encode(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        encoded = self.bundle.tokenizer.encode([normalise(text, self.bundle.normalisation) for text in texts])
        return fit([np.append(ids.astype(np.int64), EOS) for ids in encoded], self.bundle.positions, "truncate")

    def _read(self, rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Returns (P, C) of each row of ids, batched by length."""
        arrays: list[NDArray[np.float32]] = [np.empty((0, 0), np.float32)] * len(rows)
        for places in length_batches(BATCH_TOKENS, len(rows), [len(row) for row in rows]):
            with torch.inference_mode():
                answers = probabilities(self.network, pad([rows[place] for place in places]).to(self.device)).cpu()
            for row, place in enumerate(places):
                arrays[place] = answers[row].numpy()
        return arrays
