"""Keeps the running command line, so that a message can name the next command with all settings that were given."""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

from dragoman.conf import own
from dragoman.model.addresses import mask_credentials

OWN = ("--config", "--config-dir")  # options with a value that name a user's own settings
_line = ContextVar[tuple[str, ...]]("line", default=())


@contextlib.contextmanager
def remembered(words: Sequence[str]) -> Iterator[None]:
    """Makes `words`, the running command line without the command's name, known within the block."""
    before = _line.set(tuple(words))
    try:
        yield
    finally:
        _line.reset(before)


def command(
    verb: str, *changes: str, otherwise: Sequence[str] = (), keep: Callable[[str], bool] = lambda key: True
) -> str:
    """Returns `dragoman VERB` with the settings of the running command line, some replaced by `changes`.

    `otherwise` are settings for keys that the line lacks. `keep(key)` returns True if a setting of the line has a
    meaning for the command.
    """
    changed = {key_of(word) for word in changes}
    options, settings = _parts()
    lacked = [word for word in otherwise if key_of(word) not in map(key_of, settings)]
    kept = [masked(word) for word in settings if key_of(word) not in changed and keep(key_of(word))]
    return shlex.join(["dragoman", verb, *own.option(), *options, *kept, *lacked, *changes])


def key_of(word: str) -> str:
    """Returns the key of a setting `KEY=VALUE`."""
    return word.lstrip("+~").partition("=")[0]


def masked(word: str) -> str:
    """Returns the setting without the user and password of an address in it."""
    key, equals, value = word.partition("=")
    return f"{key}={mask_credentials(value)}" if equals else word


def _parts() -> tuple[list[str], list[str]]:
    """Returns the options that name files of settings, and the settings; `--config-dir` is in its variable."""
    options: list[str] = []
    settings: list[str] = []
    for option, value in own_options(_line.get()):
        if option == "--config":
            options += [option, value]
        elif not option and "=" in value and not value.startswith("-"):
            settings.append(value)
    return options, settings


def own_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields (option, value) for each option with a user's own settings, and ("", word) for each other word."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        yield (option, value if equals else next(rest, "")) if option in OWN else ("", word)
