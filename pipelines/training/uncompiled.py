"""Trains without torch's compiler, whose import costs each process nearly as much as torch itself.

Optimizers, process groups and DDP import `torch._dynamo` to exclude parts from tracing, although nothing of ours is
ever compiled. A stand-in answers those few calls; anything else that is asked of it loads the real module.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

NAME = "torch._dynamo"


class _StandIn(ModuleType):
    utils = SimpleNamespace(get_optimize_ddp_mode=lambda: "no_optimization")
    trace_rules = SimpleNamespace(clear_lru_cache=lambda: None)

    @staticmethod
    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        return function

    @staticmethod
    def graph_break(*_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name == "__file__":  # `inspect` asks every module for it, also in the middle of another import
            raise AttributeError(name)
        if sys.modules.get(NAME) is self:
            del sys.modules[NAME], torch._dynamo
        return getattr(importlib.import_module(NAME), name)


def leave_compiler_out() -> None:
    """Puts the stand-in in the place of `torch._dynamo`, unless that is loaded already."""
    if NAME not in sys.modules:
        sys.modules[NAME] = torch._dynamo = _StandIn(NAME)
