"""Composes a usual command line from the files of this folder: the values of Hydra, in a twentieth of its time.

Usual are words that choose one of our files, or give a key of theirs a plain value: a word, a number, a quoted text, a
list of such. The rest is Hydra's: a user's own folder, `+KEY`, `~KEY`, `${...}`, and every mistake, which
`mistakes.py` explains. A test composes by both and compares.
"""

import copy
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from dragoman.conf.groups import (
    VARIABLE,
    choices,
    default_choices,
    experiment_choices,
    merge_choice,
    merge_choices,
    over,
)

Tree = dict[str, Any]
Functions = Mapping[str, Callable[..., Any]]  # name -> function of ${NAME:ARGUMENT,...}

UNSIGNED = r"(?:0|[1-9](?:_?\d)*)"
POINT = rf"(?:{UNSIGNED}\.|{UNSIGNED}?\.\d(?:_?\d)*)"
# A value's forms in Hydra's grammar of overrides. Infinity and NaN are left to Hydra.
INTEGER = re.compile(rf"[+-]?{UNSIGNED}", re.ASCII)
FLOAT = re.compile(rf"[+-]?(?:{POINT}|(?:{UNSIGNED}|{POINT})[eE][+-]?\d(?:_?\d)*)", re.ASCII)
WORD = re.compile(r"(?![+-]?(?i:inf|nan)$)[\w./:@%*+-]*", re.ASCII)
QUOTED = re.compile(r"'([^'\\$]*)'")
CONSTANTS = {"null": None, "true": True, "false": False}
REFERENCE = re.compile(r"\$\{([\w.]+)([:}])")


class WrittenInt(int):
    """A whole number that remembers how it was typed: the value of a text setting is that text."""

    text: str

    def __str__(self) -> str:
        return self.text


class WrittenFloat(float):
    """A fraction that remembers how it was typed, as `name=7e12`."""

    text: str

    def __str__(self) -> str:
        return self.text


class UnusualError(Exception):
    """Hydra must read these words."""


def compose(words: Sequence[str]) -> Tree:
    """Returns all sections with the words' values; interpolations stay as written.

    Raises UnusualError: a word is not usual, or names no key or choice.
    """
    if os.environ.get(VARIABLE):
        raise UnusualError
    groups = {*default_choices(), "experiment"}
    chosen: dict[str, str] = {}
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if key not in groups:
            settings[key] = _value(text)
        elif key in chosen or text not in choices(key):
            raise UnusualError
        else:
            chosen[key] = text
        if not equals:
            raise UnusualError
    tree = copy.deepcopy(_with_choices(tuple(chosen.items())))
    for key, value in settings.items():
        put(tree, key, value)
    return tree


def put(tree: Tree, key: str, value: Any) -> None:
    """Sets the value of a dotted key that the tree has. Raises UnusualError: it has no such key."""
    *sections, last = key.split(".")
    for name in sections:
        tree = tree.get(name)  # type: ignore[assignment]  # checked in the next line
        if not isinstance(tree, dict):
            raise UnusualError
    if last not in tree:
        raise UnusualError
    tree[last] = value


@lru_cache(maxsize=64)
def _with_choices(chosen: tuple[tuple[str, str], ...]) -> Tree:
    """Returns the values of the files that these choices, and the defaults of all other groups, name."""
    merged = dict(chosen)
    experiment = merged.pop("experiment", None)
    files = default_choices() | (experiment_choices(experiment) if experiment else {}) | merged
    tree = merge_choices(files)
    return over(tree, merge_choice("experiment", experiment)) if experiment else tree


def _value(text: str) -> Any:
    """Returns the value of a setting's text."""
    if text.startswith("[") and text.endswith("]"):
        items = text[1:-1].split(",") if len(text) > len("[]") else []
        if "" in items:
            raise UnusualError
        return [_value(item) for item in items]
    if quoted := QUOTED.fullmatch(text):
        return quoted[1]
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    if INTEGER.fullmatch(text):
        return _written(int(text), WrittenInt(text), text)
    if FLOAT.fullmatch(text):
        return _written(float(text), WrittenFloat(text), text)
    if not WORD.fullmatch(text):
        raise UnusualError
    return text


def _written(plain: float, written: WrittenInt | WrittenFloat, text: str) -> float:
    """Returns the plain number, or the one that remembers its text where the number's own is another."""
    written.text = text
    return plain if str(plain) == text else written


def is_plain(text: str) -> bool:
    """Returns True for a number, a constant or a word, which need no quotes."""
    forms = (INTEGER, FLOAT, WORD)
    return text.lower() in CONSTANTS or any(form.fullmatch(text) for form in forms)


def written_numbers(words: Sequence[str]) -> dict[str, Any]:
    """Returns key -> number of the settings whose number remembers how it was typed."""
    numbers: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        if (INTEGER.fullmatch(text) or FLOAT.fullmatch(text)) and isinstance(_value(text), WrittenInt | WrittenFloat):
            numbers[key] = _value(text)
    return numbers


def read_plain(text: str) -> Any:
    """Returns the number, constant or word that a plain text is."""
    value = _value(text)
    return plain_number(value) if isinstance(value, WrittenInt | WrittenFloat) else value


def plain_number(number: float) -> float:
    """Returns the number without its text."""
    return int(number) if isinstance(number, int) else float(number)


def resolve(tree: Tree, functions: Functions) -> Tree:
    """Returns a copy of the tree in which every `${KEY}` and `${FUNCTION:ARGUMENT,...}` is replaced by its value."""
    values: dict[str, Any] = {}

    def at(key: str) -> Any:
        if key not in values:
            node: Any = tree
            for name in key.split("."):
                node = node[name]
            values[key] = of(node)
        return values[key]

    def of(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: of(value) for key, value in node.items()}
        if isinstance(node, list):
            return [of(value) for value in node]
        return read(node, 0, "")[0] if isinstance(node, str) and "${" in node else node

    def read(text: str, start: int, ends: str) -> tuple[Any, int]:
        """Returns the value of the text up to one of `ends`, and that place. A lone reference keeps its type."""
        parts: list[Any] = []
        while start < len(text) and text[start] not in ends:
            if match := REFERENCE.match(text, start):
                part, start = (at(match[1]), match.end()) if match[2] == "}" else call(match[1], text, match.end())
            else:
                part, start = text[start], start + 1
            parts.append(part)
        return parts[0] if len(parts) == 1 else "".join(map(str, parts)), start

    def call(name: str, text: str, start: int) -> tuple[Any, int]:
        """Returns the value of a function whose arguments begin at `start`, and the place behind its brace."""
        arguments: list[Any] = []
        while True:
            quoted = text[start] == '"'
            value, start = read(text, start + quoted, '"' if quoted else ",}")
            arguments.append(None if value == "null" and not quoted else value)
            start += quoted + 1
            if text[start - 1] == "}":
                return functions[name](*arguments), start

    return {key: of(value) for key, value in tree.items()}
