"""Shardings in a process of their own: one that is killed in the middle, one through an embedded Ray."""

import importlib
import os
import signal
from collections.abc import Mapping
from typing import Any

from dragoman.pipelines.config import Config
from dragoman.pipelines.shard import shard
from tests.warm import CONTEXT

PATIENCE = 240.0  # seconds


def kill_sharding(config: Config, where: str, call: int, settings: Mapping[str, object]) -> None:
    """Shard until the function `where` (module.name) is called for that time: SIGKILL.

    `settings`: module.NAME -> the value that it has there. The processes are forked from one that has imported all.
    """
    process = CONTEXT.Process(target=_shard, args=(config, where, call, dict(settings)))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL


def shard_over_ray(config: Config, settings: Mapping[str, object]) -> None:
    """Shard, however small the corpus is, through Ray: this process may have imported it with other settings."""
    changed = {**settings, "dragoman.pipelines.cluster.map.WORTH_RAY_LINES": 0}
    process = CONTEXT.Process(target=_shard_over_ray, args=(config, changed))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0


def _shard_over_ray(config: Config, settings: Mapping[str, object]) -> None:
    _set(settings)
    shard(config)


def _set(settings: Mapping[str, object]) -> None:
    for name, value in settings.items():
        module, _, attribute = name.rpartition(".")
        setattr(importlib.import_module(module), attribute, value)


def _shard(config: Config, where: str, call: int, settings: Mapping[str, object]) -> None:
    _set(settings)
    module, _, attribute = where.rpartition(".")
    holder = importlib.import_module(module)
    function = getattr(holder, attribute)
    left = call

    def killing(*arguments: Any, **keys: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keys)

    setattr(holder, attribute, killing)
    shard(config)
