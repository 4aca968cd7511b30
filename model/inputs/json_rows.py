"""Rows of JSON that somebody else wrote, and the texts in them."""

import json
from collections.abc import Sequence
from typing import Any


def parse_row(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is no JSON, or nested so deep that Python cannot read it.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def text_at(row: Any, path: Sequence[str]) -> str | None:
    """Return the text at a path of field names; None where the row has none there.

    Raises:
        TypeError: something else than text stands there; names its type.
    """
    value = row
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    if not isinstance(value, str):
        raise TypeError(type(value).__name__)
    return value
