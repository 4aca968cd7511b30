"""Rows of JSON from other programs, and the texts in them."""

import json
from collections.abc import Sequence
from typing import Any


def parse_row(text: str | bytes) -> Any:
    """Returns the value of a JSON text. Raises ValueError: not JSON, or nested too deeply for Python."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def text_at(row: Any, path: Sequence[str]) -> str | None:
    """Returns the text at a path of field names; None if the row has none there.

    Raises TypeError: the value there is no text; the message names its type.
    """
    value = row
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    if not isinstance(value, str):
        raise TypeError(type(value).__name__)
    return value
