"""Numba's decorators, typed. Only modules that hold compiled code import this one; everything else runs without numba.

Machine code is kept on disk. Numba asks the file of a function whether it has changed, but not the files of what was
inlined into it, so the folder where code is kept carries a digest of all of them.
"""

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numba
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Arguments = ParamSpec("Arguments")
Emit = Callable[[Any, Any, Any, Any], Any]  # (target context, LLVM builder, signature, LLVM arguments) -> LLVM value


def compiled(function: Function) -> Function:
    """Machine code that lets go of the GIL; floating-point sums may be reordered."""
    return _wrapped(function, inline=False)


def inlined(function: Function) -> Function:
    """A part of compiled code: it becomes one with its caller, for which no argument is passed or counted."""
    return _wrapped(function, inline=True)


def _wrapped(function: Function, inline: bool) -> Function:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(Path(before or _home()) / f"compiled-{_digest()}")
    options = {"nogil": True, "fastmath": True, "error_model": "numpy", "forceinline": inline}
    try:  # the folder is chosen here, while the function is wrapped
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # nothing can be written anywhere: every process compiles anew
        return cast(Function, numba.njit(**options)(function))
    finally:
        numba.config.CACHE_DIR = before


def emitted(typed: Callable[Concatenate[Any, Arguments], tuple[Any, Emit]]) -> Callable[Arguments, Any]:
    """LLVM instructions that compiled code calls like a function: `typed` names the types and how to emit them."""
    return cast(Callable[Arguments, Any], intrinsic(typed))


def _home() -> Path:
    folder = Path(__file__).parent / "__pycache__"
    writable = os.access(folder if folder.is_dir() else folder.parent, os.W_OK)
    return folder if writable else Path.home() / ".cache" / "dragoman"


@functools.cache
def _digest() -> str:
    """Of every source file here: any of them may be inlined, or hold a constant that is compiled in."""
    sources = (path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]
