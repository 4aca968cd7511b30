"""The arguments of a call as words of the command line, and those as a typed configuration."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from dragoman.conf import compose
from dragoman.conf.own import as_words, read_settings
from dragoman.model.errors import UserError

Root = TypeVar("Root")
Path = str | os.PathLike[str]


def words_of(overrides: Sequence[str], config: Path | None, settings: Mapping[str, Any]) -> list[str]:
    """Returns the file's words, then the given ones, then the keywords; an overridden choice is left out."""
    for word in overrides:
        if not isinstance(word, str) or word.startswith("-") or "=" not in word:
            raise UserError(f"{word!r} is no setting: write 'KEY=VALUE', for example 'model=transformer_small'")
    words = read_settings(os.fspath(config)) if config is not None else []
    words += [*overrides, *as_words(settings, "a keyword")]
    last = {word.partition("=")[0]: place for place, word in enumerate(words)}
    return [word for place, word in enumerate(words) if last[word.partition("=")[0]] == place]


def configure(root: type[Root], words: Sequence[str], settle: compose.Settle | None = None) -> Root:
    """Returns the sections that `root` declares, composed, checked and typed. `settle` as in `compose.run`."""
    with compose.apart():
        values = compose.values(words, root, settle)
    compose.home_of(values)
    return compose.typed(root, values)
