"""Numba's decorators, typed. Only modules with compiled code import this; everything else runs without numba.

Machine code is cached on disk. Numba checks whether a function's own file has changed, but not the files of inlined
functions, so the name of the cache folder contains a digest of all of them.
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
    """Compiles to machine code that releases the GIL; floating-point sums may be reordered."""
    return _compile(function, inline=False)


def inlined(function: Function) -> Function:
    """Compiles a part that is inlined into its caller: it passes no arguments and counts no references."""
    return _compile(function, inline=True)


def _compile(function: Function, inline: bool) -> Function:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(Path(before or _home()) / f"compiled-{_digest()}")
    options = {"nogil": True, "fastmath": True, "error_model": "numpy", "forceinline": inline}
    try:  # wrapping the function chooses the folder
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no folder is writable: every process compiles again
        return cast(Function, numba.njit(**options)(function))
    finally:
        numba.config.CACHE_DIR = before


def emitted(typed: Callable[Concatenate[Any, Arguments], tuple[Any, Emit]]) -> Callable[Arguments, Any]:
    """Emits LLVM instructions that compiled code calls like a function: `typed` gives the types and the emitter."""
    return cast(Callable[Arguments, Any], intrinsic(typed))


def _home() -> Path:
    folder = Path(__file__).parent / "__pycache__"
    writable = os.access(folder if folder.is_dir() else folder.parent, os.W_OK)
    return folder if writable else Path.home() / ".cache" / "dragoman"


@functools.cache
def _digest() -> str:
    """Returns the digest of every source file here: each may be inlined, or hold a constant that is compiled in."""
    sources = (path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]
