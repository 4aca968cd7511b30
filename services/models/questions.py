"""Questions to word vectors, on the command line and over HTTP: a word's vector, neighbours, analogies.

A question is checked when it is answered; an unknown word is a UserError. Questions that come together are searched
together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings, Method, Neighbour, Search

DIGITS = 6  # of a similarity; float32 has about 7


def answers(questions: Sequence["Question"], embeddings: Embeddings) -> list[dict[str, Any] | UserError]:
    """Returns the JSON answer to each question, or why there is none."""

    def search(question: "Question") -> Search | UserError | None:
        try:
            return question.search(embeddings)
        except UserError as problem:
            return problem

    searches = [search(question) for question in questions]
    results = iter(embeddings.search_all([search for search in searches if isinstance(search, Search)]))
    return [
        search
        if isinstance(search, UserError)
        else question.to_json(embeddings, () if search is None else next(results))
        for question, search in zip(questions, searches, strict=True)
    ]


@dataclass(frozen=True)
class VectorOf:
    """A word's vector, its rank by frequency (from 0), and its count."""

    word: str

    @property
    def words(self) -> Sequence[str]:
        return (self.word,)

    def search(self, embeddings: Embeddings) -> None:
        embeddings.known(self.word)

    def to_json(self, embeddings: Embeddings, neighbours: Sequence[Neighbour]) -> dict[str, Any]:
        row = embeddings.known(self.word)
        facts = {"word": self.word, "rank": row, "count": int(embeddings.counts[row]), "width": embeddings.width}
        if not embeddings.sparse:
            # Written as short as float32 allows: 0.1, not 0.10000000149011612, its value in 64 bits.
            return {**facts, "vector": [float(str(number)) for number in embeddings.vector(self.word)]}
        entries = embeddings.vectors[[row]].tocoo()  # counted vectors are as wide as the vocabulary, and nearly all 0
        return {**facts, "indices": entries.col.tolist(), "values": entries.data.astype(float).tolist()}


@dataclass(frozen=True, eq=False)
class NeighboursOf:
    """The words nearest to a word or to a vector (d,), by cosine, the nearest first."""

    query: str | NDArray[np.float64]
    k: int = 10
    exclude: Sequence[str] = ()
    restrict: int = 0  # among this many most frequent words; 0: all

    @property
    def words(self) -> Sequence[str]:
        return (self.query,) if isinstance(self.query, str) else ()

    def search(self, embeddings: Embeddings) -> Search:
        return embeddings.near(self.query, self.k, self.exclude, self.restrict)

    def to_json(self, embeddings: Embeddings, neighbours: Sequence[Neighbour]) -> dict[str, Any]:
        question = {"word": self.query} if isinstance(self.query, str) else {}
        near = [{"word": neighbour.word, "similarity": round(neighbour.similarity, DIGITS)} for neighbour in neighbours]
        return {**question, "neighbours": near}


@dataclass(frozen=True)
class AnalogyOf:
    """Words that are to c as b is to a: the best first, with the method's score."""

    a: str
    b: str
    c: str
    k: int = 1
    method: Method = "3cosadd"
    restrict: int = 0

    @property
    def words(self) -> Sequence[str]:
        return (self.a, self.b, self.c)

    def search(self, embeddings: Embeddings) -> Search:
        return embeddings.like(self.a, self.b, self.c, self.k, self.method, self.restrict)

    def to_json(self, embeddings: Embeddings, neighbours: Sequence[Neighbour]) -> dict[str, Any]:
        best = [{"word": neighbour.word, "score": round(neighbour.similarity, DIGITS)} for neighbour in neighbours]
        return {"a": self.a, "b": self.b, "c": self.c, "method": self.method, "answers": best}


Question = VectorOf | NeighboursOf | AnalogyOf
