"""The options of every command: show the configuration. services/cli.py reads `--config` first."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from dragoman.model.errors import UserError


@dataclass
class Options:
    """The options of a command line, beside its settings."""

    overrides: list[str] = field(default_factory=list)
    cfg: str | None = None
    resolve: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # argparse says "argument --cfg/-c: invalid choice: 'x' (choose from 'job')"
        raise UserError(message.removeprefix("argument "))


def read_options(argv: Sequence[str], meant: Callable[[str, str], str]) -> Options:
    """Returns the options and the settings of a command line.

    `meant(option, value)` returns what to write instead of an unknown option.

    Raises UserError: an option is unknown, or lacks its value.
    """
    parser = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--cfg", choices=["job"])
    parser.add_argument("--resolve", action="store_true")
    parsed, rest = parser.parse_known_args(list(argv))
    for place, word in enumerate(rest):
        if word.startswith("-"):
            option, equals, value = word.partition("=")
            after = [*rest[place + 1 :], ""][0]
            value_given = value if equals or after.startswith("-") or "=" in after else after
            raise UserError(meant(option, value_given))
    options = Options(overrides=rest, **vars(parsed))
    if options.cfg is None and options.resolve:
        raise UserError("--resolve: says how --cfg job prints the configuration; add --cfg job")
    return options


def positional(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits into (words, configuration): configuration words have a `=`, Hydra gets everything from an option on."""
    options = next((place for place, word in enumerate(argv) if word.startswith("-")), len(argv))
    words = [word for word in argv[:options] if "=" not in word]
    return words, [word for word in argv[:options] if "=" in word] + list(argv[options:])
