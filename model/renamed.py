"""Keys that were renamed: the old name is still read, on command lines and in stored files, with one warning."""

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

RENAMED = {
    "evaluate.tokenise": "evaluate.tokenize",
    "jobs.auth": "service.auth",
    "jobs.python": "service.python",
    "jobs.token_file": "service.token_file",
    "loader.length": "loader.context_length",
    "loader.mask": "loader.mlm_probability",
    "model.form": "model.algorithm",
    "rerank.tokenise": "rerank.tokenize",
    "train.final": "train.final_weights",
}
logger = logging.getLogger(__name__)


@cache
def current(key: str) -> str:
    """Returns today's name of a dotted key, and warns once about an old one."""
    if key in RENAMED:
        logger.warning(f"{key} is called {RENAMED[key]} now; the old name was read")
    return RENAMED.get(key, key)


def former(key: str) -> str:
    """Returns a key's oldest name, for stored files whose bytes must not change, such as checkpoints."""
    return next((old for old, new in RENAMED.items() if new == key), key)


def current_words(words: Iterable[str]) -> list[str]:
    """Returns the words of a command line with today's keys."""
    renamed = []
    for word in words:
        key, equals, value = word.partition("=")
        name = key.lstrip("+~")
        renamed.append(f"{key[: len(key) - len(name)]}{current(name)}{equals}{value}")
    return renamed


def current_values(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Returns the same values under today's keys, in every section; `where` is the dotted key of the mapping itself."""
    prefix = f"{where}." if where else ""
    return {
        current(f"{prefix}{key}").removeprefix(prefix): (
            current_values(value, f"{prefix}{key}") if isinstance(value, Mapping) else value
        )
        for key, value in values.items()
    }
