"""What a client may ask about word vectors, read from the same places as a translation's parameters, and checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

from model.word_vectors.embeddings import METHODS
from services.endpoint.requests import whole_number
from services.models.questions import AnalogyOf, NeighboursOf
from services.settings import Limits

MOST_WORDS = 1 << 31  # what `restrict` may say


def read_neighbours(values: Mapping[str, Any], limits: Limits) -> NeighboursOf:
    """`word` or `vector`, `k`, `exclude`, `restrict`.

    Raises:
        HTTPException: 400, both or neither are given, or a parameter is of a wrong type or over a limit.
    """
    if ("word" in values) == ("vector" in values):
        raise HTTPException(400, "Invalid request: give either word or vector")
    query = _word(values, "word") if "word" in values else _vector(values["vector"])
    exclude = values.get("exclude", [])
    exclude = [exclude] if isinstance(exclude, str) else exclude
    if not isinstance(exclude, list) or not all(isinstance(word, str) for word in exclude):
        raise HTTPException(400, "Invalid request: exclude must be a list of words")
    return NeighboursOf(query, _k(values, 10, limits), exclude, whole_number(values, "restrict", 0, 0, MOST_WORDS))


def read_analogy(values: Mapping[str, Any], limits: Limits) -> AnalogyOf:
    """`a`, `b`, `c`, `k`, `method`, `restrict`.

    Raises:
        HTTPException: 400, a word is missing, or a parameter is of a wrong type, unknown or over a limit.
    """
    a, b, c = (_word(values, name) for name in "abc")
    method = values.get("method", "3cosadd")
    if not isinstance(method, str) or method not in METHODS:
        raise HTTPException(400, f"Invalid request: method must be one of {', '.join(METHODS)}")
    restrict = whole_number(values, "restrict", 0, 0, MOST_WORDS)
    return AnalogyOf(a, b, c, _k(values, 1, limits), method, restrict)


def _k(values: Mapping[str, Any], default: int, limits: Limits) -> int:
    return whole_number(values, "k", min(default, limits.neighbours), 1, limits.neighbours)


def _word(values: Mapping[str, Any], name: str) -> str:
    word = values.get(name)
    if word is None or word == "":
        raise HTTPException(400, f"Invalid request: missing {name} parameter")
    if not isinstance(word, str):
        raise HTTPException(400, f"Invalid request: {name} must be a string")
    return word


def _vector(given: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    numbers = given if isinstance(given, list) else None
    if not numbers or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
        raise HTTPException(400, "Invalid request: vector must be a list of numbers")
    try:
        vector = np.array(numbers, np.float64)
    except OverflowError:  # a whole number of more than 308 digits
        vector = np.array([np.inf])
    if not np.isfinite(vector).all():
        raise HTTPException(400, "Invalid request: vector must hold finite numbers")
    return vector
