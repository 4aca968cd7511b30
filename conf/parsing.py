"""Hydra's files parsed by libyaml, and the text of a value once: reading them is a third of what composing costs.

OmegaConf asks PyYAML for its parser in Python, and reads `${...}` and every override by a grammar whose parser is slow.
The same few texts come back in each file and in each configuration that a process composes.
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
