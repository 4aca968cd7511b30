"""The options of every command: show the configuration, run once per value. services/cli.py reads `--config` first."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NoReturn

from dragoman.model.errors import UserError


@dataclass
class Options:
    """The options of a command line, beside its settings."""

    overrides: list[str] = field(default_factory=list)
    cfg: str | None = None
    package: str | None = None
    resolve: bool = False
    multirun: bool = False


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
    parser.add_argument("--package")
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--multirun", action="store_true")
    parsed, rest = parser.parse_known_args(list(argv))
    for place, word in enumerate(rest):
        if word.startswith("-"):
            option, equals, value = word.partition("=")
            after = [*rest[place + 1 :], ""][0]
            value_given = value if equals or after.startswith("-") or "=" in after else after
            raise UserError(meant(option, value_given))
    options = Options(overrides=rest, **vars(parsed))
    if options.cfg is None and (options.resolve or options.package is not None):
        option = "--resolve" if options.resolve else "--package"
        raise UserError(f"{option}: says how --cfg job prints the configuration; add --cfg job")
    return options


def positional(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits into (words, configuration): configuration words have a `=`, Hydra gets everything from an option on."""
    options = next((place for place, word in enumerate(argv) if word.startswith("-")), len(argv))
    words = [word for word in argv[:options] if "=" not in word]
    return words, [word for word in argv[:options] if "=" in word] + list(argv[options:])


def each_run(overrides: Sequence[str]) -> list[list[str]]:
    """Returns the settings of each run of `--multirun`: every combination of the listed values.

    Raises:
        UserError: `glob(...)`, which only Hydra's own sweeper knows.
        HydraException: a setting cannot be read.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Glob

    choices: list[list[str]] = []
    for word, override in zip(overrides, OverridesParser.create().parse_overrides(list(overrides)), strict=True):
        key = override.get_key_element()
        if isinstance(override.value(), Glob):
            raise UserError(f"{word}: list the choices, {key}=A,B")
        if override.is_sweep_override() and not override.is_discrete_sweep():
            raise UserError(f"{word}: --multirun runs once a value, {key}=A,B; `dragoman sweep` draws from an interval")
        if override.is_sweep_override():
            choices.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            choices.append([word])
    return [list(words) for words in product(*choices)]


def combinations(overrides: Sequence[str]) -> list[list[str]]:
    """Returns the same for a command that is no `--multirun`.

    Raises UserError: a setting cannot be read, or lists no choices.
    """
    from hydra.errors import HydraException

    try:
        return each_run(overrides)
    except HydraException as problem:
        raise UserError(" ".join(str(problem).split("See https", 1)[0].split())) from None
