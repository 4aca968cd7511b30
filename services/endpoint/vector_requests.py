"""The parameters of questions about word vectors, read from the same places as a translation's, and checked."""

from typing import Self

import numpy as np
import pydantic
from pydantic import Field, FiniteFloat

from dragoman.model.word_vectors.embeddings import METHODS, Method
from dragoman.services.endpoint.requests import Parameters, Strings, Text, refuse, whole_number
from dragoman.services.models.questions import AnalogyOf, NeighboursOf, Question
from dragoman.services.settings import Limits


class SearchRequest(Parameters):
    """The parameters of both searches."""

    k: int = 1
    restrict: int = 0

    @classmethod
    def within(cls, limits: Limits) -> type[Self]:
        """Returns the class with the limit on answers."""
        most = limits.neighbours
        k = whole_number(min(cls.model_fields["k"].default, most), 1, most)
        return pydantic.create_model(cls.__name__, __base__=cls, k=k, restrict=whole_number(0, 0, 1 << 31))

    def question(self) -> Question:
        raise NotImplementedError


class NeighboursRequest(SearchRequest, json_schema_extra={"oneOf": [{"required": ["word"]}, {"required": ["vector"]}]}):
    """The parameters of /neighbours."""

    k: int = 10
    # Made when missing, so that the document has no defaults for parameters that exclude each other.
    word: Text = Field(default_factory=str, examples=["dog"])
    vector: list[FiniteFloat] = Field(
        default_factory=list,
        min_length=1,
        fail_fast=True,
        title="a list of finite numbers",
        description="instead of word; as many numbers as the vectors have",
    )
    exclude: Strings | str = Field(default_factory=list, title="a list of words")

    @pydantic.model_validator(mode="after")
    def _check_either(self) -> Self:
        if bool(self.word) == bool(self.vector):
            refuse("Invalid request: give either word or vector")
        if self.vector and not any(self.vector):
            refuse("Invalid request: vector must have a number other than 0: zeros have no direction")
        return self

    def question(self) -> NeighboursOf:
        exclude = [self.exclude] if isinstance(self.exclude, str) else self.exclude
        return NeighboursOf(self.word or np.array(self.vector, np.float64), self.k, exclude, self.restrict)


class AnalogyRequest(SearchRequest):
    """The parameters of /analogy: a is to b as c is to the answers."""

    a: Text = Field(examples=["man"])
    b: Text = Field(examples=["king"])
    c: Text = Field(examples=["woman"])
    method: Method = Field("3cosadd", title=f"one of {', '.join(METHODS)}")

    def question(self) -> AnalogyOf:
        return AnalogyOf(self.a, self.b, self.c, self.k, self.method, self.restrict)
