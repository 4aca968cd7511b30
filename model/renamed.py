"""Keys that had another name: the old one is still read, on a command line and in what was stored, and named once."""

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

RENAMED = {
    "evaluate.tokenise": "evaluate.tokenize",
    "loader.length": "loader.context_length",
    "loader.mask": "loader.mlm_probability",
    "model.form": "model.algorithm",
    "rerank.tokenise": "rerank.tokenize",
    "train.final": "train.final_weights",
}
logger = logging.getLogger(__name__)


@cache
def current(key: str) -> str:
    """Today's name of a dotted key, the same where it was never another; an old one is warned of once."""
    if key in RENAMED:
        logger.warning(f"{key} is called {RENAMED[key]} now; the old name was read")
    return RENAMED.get(key, key)


def former(key: str) -> str:
    """The name of a key in what is stored and must stay the same bytes, such as a checkpoint's: its oldest one."""
    return next((old for old, new in RENAMED.items() if new == key), key)


def current_words(words: Iterable[str]) -> list[str]:
    """The words of a command line with today's keys."""
    renamed = []
    for word in words:
        key, equals, value = word.partition("=")
        name = key.lstrip("+~")
        renamed.append(f"{key[: len(key) - len(name)]}{current(name)}{equals}{value}")
    return renamed


def current_values(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """The same values under today's keys, in every section; `where` is the dotted key of the mapping itself."""
    prefix = f"{where}." if where else ""
    return {
        current(f"{prefix}{key}").removeprefix(prefix): (
            current_values(value, f"{prefix}{key}") if isinstance(value, Mapping) else value
        )
        for key, value in values.items()
    }
