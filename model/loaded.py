"""Objects that tables name by where they are, `module:name`, and load on demand."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def loaded(where: str) -> Any:
    """Returns the object at `module:name`, whose module is imported now."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def later(where: str) -> Callable[..., Any]:
    """Returns a function that calls the one at `module:name`, whose module is imported then."""
    return lambda *arguments: loaded(where)(*arguments)
