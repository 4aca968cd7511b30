"""The labels of a labelled corpus as a vocabulary: the target side of its shards, stored as readable JSON.

    classes   one label a text, which may hold spaces; a row is that label's id
    tags      one label a word, separated by spaces; a row has a tag where a word begins and GAP at its further pieces

Ids below `FIRST` are those that every vocabulary has; class and tag k of a network's output is id FIRST + k.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.plural import plural
from dragoman.model.text.tokenizer import SEP, SPECIAL, SPECIAL_PIECES, UNK, Ids, LabelTask, Stored, Tokenizer
from dragoman.model.text.words import TableTokenizer

FIRST = len(SPECIAL)  # the id of the first label
GAP = SEP  # at the further pieces of a word


class LabelTokenizer(TableTokenizer):
    """The labels in their order, and how a text of them is read."""

    type: Stored = "labels"

    def __init__(self, pieces: Sequence[str], task: LabelTask) -> None:
        super().__init__(pieces)
        self.task = task

    @classmethod
    def of(cls, task: LabelTask, texts: Iterable[str]) -> "LabelTokenizer":
        """Makes the vocabulary of the labels of a training text."""
        labels = sorted({label for text in texts for label in (text.split(" ") if task == "tags" else [text])})
        if reserved := sorted(set(labels) & set(SPECIAL_PIECES)):
            raise UserError(f"corpus.labels={task}: {reserved[0]!r} is reserved; give the label another name")
        if len(labels) < 2:
            raise UserError(f"corpus.labels={task}: the training texts have one label only, {', '.join(labels)!r}")
        return cls([*SPECIAL_PIECES, *labels], task)

    @property
    def labels(self) -> list[str]:
        """Returns the labels in the order of a network's outputs."""
        return self.written[FIRST:]

    def split(self, text: str) -> Sequence[str]:
        return text.split(" ") if self.task == "tags" else [text]

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        find, dtype = self.table.get, self.dtype
        return [np.array([find(unit, UNK) for unit in self.split(text)], dtype=dtype) for text in texts]

    def decode(self, ids: Sequence[Sequence[int] | NDArray[Any]]) -> list[str]:
        between = " " if self.task == "tags" else ""
        return [between.join(self.surfaces(row)) for row in ids]

    def _settings(self) -> dict[str, Any]:
        return {"labels": self.task}

    @classmethod
    def deserialise(cls, data: bytes, where: str) -> "LabelTokenizer":
        pieces, values = cls.parse(data, where)
        if values.get("labels") not in get_args(LabelTask):
            raise UserError(f"{where}: labels={values.get('labels')!r}: made by a newer version")
        return cls(pieces, values["labels"])


def encode_words(tokenizer: Tokenizer, texts: Sequence[Sequence[str]]) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
    """Returns (ids, starts) of each text of words: starts (words,) are the places of the words' first pieces.

    Each word is encoded by itself, in a corpus as in a request; one that the tokenizer leaves out is UNK.
    """
    rows = iter(tokenizer.encode_after_space([word for words in texts for word in words]))
    unknown = np.array([UNK], tokenizer.dtype)
    ids = []
    for words in texts:
        pieces = [row if len(row) else unknown for _, row in zip(words, rows, strict=False)]  # words end first
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        ids.append((np.concatenate([unknown[:0], *pieces]), np.cumsum(lengths) - lengths))
    return ids


def encode_tagged(
    tokenizer: Tokenizer, labels: LabelTokenizer, texts: Sequence[str], tags: Sequence[str]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yields (ids, tag ids) of each text of words with its tags, both of one length: GAP at a word's further pieces.

    Raises ValueError: a text has another number of words than of tags.
    """
    rows = encode_words(tokenizer, [text.split(" ") for text in texts])
    for (ids, starts), chosen in zip(rows, labels.encode(tags), strict=True):
        if len(starts) != len(chosen):
            raise ValueError(f"{plural(len(starts), 'word')} and {plural(len(chosen), 'tag')}")
        row = np.full(len(ids), GAP, labels.dtype)
        row[starts] = chosen
        yield ids, row
