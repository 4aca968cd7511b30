"""The allowed values of a key, from the dataclass that types it."""

import importlib
import types
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

SECTIONS = (
    "dragoman.pipelines.config",
    "dragoman.services.config",
)  # modules whose `Config` has every section of every command


def choices(key: str) -> list[str]:
    """Returns the choices of SECTION.KEY as on the command line; empty if it is no enumeration, or no key."""
    section, *names = key.split(".")
    for module in SECTIONS:  # the later ones take longer to load
        hint = get_type_hints(importlib.import_module(module).Config).get(section)
        for name in names:
            hint = get_type_hints(hint).get(name) if is_dataclass(hint) else None
        if hint is not None:
            return list(_values(hint))
    return []


def _values(hint: Any) -> Iterator[str]:
    if hint is bool:
        yield from ("true", "false")
    elif get_origin(hint) is Literal:
        yield from map(str, get_args(hint))
    elif get_origin(hint) in (Union, types.UnionType):
        for argument in get_args(hint):
            yield from ["null"] if argument is types.NoneType else _values(argument)
