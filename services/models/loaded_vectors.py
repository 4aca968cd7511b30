"""Loaded word vectors, and the facts that trace an answer to its origin."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.model.bundles.vectors import VectorsBundle, load_vectors
from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.services.models.origin import Origin
from dragoman.services.models.questions import NeighboursOf, Question, answers
from dragoman.services.models.registry import UNREGISTERED, ModelVersion

if TYPE_CHECKING:
    from dragoman.model.inference.sentence_vectors import (
        WordVectors,  # it loads torch, which words' neighbours do not need
    )


@dataclass(frozen=True)
class Refused:
    """The answer to a question that has none: its HTTP status, and the reason."""

    status: int
    message: str


@dataclass(frozen=True, eq=False)
class LoadedVectors:
    """Loaded word vectors. Immutable: they are only replaced as a whole."""

    embeddings: Embeddings
    method: str  # name of their configuration
    origin: Origin
    bundle: VectorsBundle

    @cached_property
    def texts(self) -> "WordVectors | None":
        """Returns their vectors of texts; None for counted vectors, which are as wide as the vocabulary."""
        from dragoman.model.inference.sentence_vectors import WordVectors

        if self.embeddings.sparse:
            return None
        return WordVectors(self.embeddings, self.bundle.tokenizer.source, self.bundle.normalisation)

    def answer(self, questions: Sequence[Question], _nbest: int = 1) -> list[dict[str, Any] | Refused]:
        """Returns one answer per question, or a refusal: 404 for an unknown word, else 400."""
        own_answers = answers(questions, self.embeddings)
        return [
            self._refuse(q, a) if isinstance(a, UserError) else a for q, a in zip(questions, own_answers, strict=True)
        ]

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /status beside the origin."""
        return {"method": self.method, "words": len(self.embeddings), "width": self.embeddings.width}

    def _refuse(self, question: Question, problem: UserError) -> Refused:
        unknown = any(self.embeddings.row(word) is None for word in question.words)
        return Refused(404 if unknown else 400, str(problem))


def load_vectors_model(directory: Path, version: ModelVersion = UNREGISTERED) -> LoadedVectors:
    """Loads the vectors bundle in `directory` and tests it on its most frequent word.

    Raises UserError: not a valid bundle of word vectors.
    """
    bundle = load_vectors(directory)
    served = LoadedVectors(
        embeddings=bundle.embeddings,
        method=str(bundle.config.name),
        origin=Origin.of(bundle, version),
        bundle=bundle,
    )
    served.answer([NeighboursOf(served.embeddings.words[0])])  # the first search reads the whole table
    return served
