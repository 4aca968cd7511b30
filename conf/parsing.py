"""Speeds up Hydra: libyaml parses its files, and the text of a value is parsed once; a third of composing's time.

OmegaConf uses PyYAML's parser in Python, and a slow grammar for `${...}` and every override. The same few texts occur
in each file and in each configuration that a process composes.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def parsing_quickly() -> Iterator[None]:
    """Parses faster within the block; the values are the same."""
    import yaml
    from omegaconf import _utils as utils
    from omegaconf import base

    quick: list[tuple[Any, str, Any]] = [(base, "parse", _parse), (utils, "parse", _parse)]
    quick.append((yaml, "SafeLoader", getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    before = [(module, name, getattr(module, name)) for module, name, _ in quick]
    for module, name, value in quick:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


@functools.lru_cache(maxsize=4096)
def _parse(*given: Any) -> Any:
    from omegaconf.grammar_parser import parse

    return parse(*given)
