"""The command line that runs, so that a message can name the next one in full: every setting that was given stays."""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

from conf import own
from model.addresses import mask_credentials

OWN = ("--config", "--config-dir", "-cd")  # options with a value that name a user's own settings
_line = ContextVar[tuple[str, ...]]("line", default=())


@contextlib.contextmanager
def remembered(words: Sequence[str]) -> Iterator[None]:
    """Within the block `words` are the command line that runs, without the verb."""
    before = _line.set(tuple(words))
    try:
        yield
    finally:
        _line.reset(before)


def command(verb: str, *changes: str, keep: Callable[[str], bool] = lambda key: True) -> str:
    """Returns `dragoman VERB` with the settings of the running command line, and `changes` in the place of theirs.

    `keep(key)` says whether a setting of the line has a meaning for the verb.
    """
    changed = {key_of(word) for word in changes}
    options, settings = _parts()
    kept = [masked(word) for word in settings if key_of(word) not in changed and keep(key_of(word))]
    return shlex.join(["dragoman", verb, *own.option(), *options, *kept, *changes])


def has_options() -> bool:
    """Return True if the running line has options (`-m`, `--cfg job`) that are not files of one's own settings."""
    given = iter(_line.get())
    for word in given:
        if word in OWN:
            next(given, None)
        elif word.startswith("-") and word.partition("=")[0] not in OWN:
            return True
    return False


def gives(key: str) -> bool:
    """Return True if the running line sets `key`."""
    return any(key_of(word) == key for word in _parts()[1])


def key_of(word: str) -> str:
    """The key of a setting `KEY=VALUE`."""
    return word.lstrip("+~").partition("=")[0]


def masked(word: str) -> str:
    """The setting without the user and password that an address in it holds."""
    key, equals, value = word.partition("=")
    return f"{key}={mask_credentials(value)}" if equals else word


def _parts() -> tuple[list[str], list[str]]:
    """The options that name files of settings, and the settings; `--config-dir` is told by its variable."""
    options: list[str] = []
    settings: list[str] = []
    given = iter(_line.get())
    for word in given:
        name, equals, value = word.partition("=")
        if name in OWN:
            value = value if equals else next(given, "")
            options += [name, value] if name == "--config" else []
        elif equals and not word.startswith("-"):
            settings.append(word)
    return options, settings
