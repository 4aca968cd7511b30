"""Limits the memory that a long CPU training keeps after freeing it.

Batches come in hundreds of shapes. oneDNN compiles a bf16 product for each and keeps the last 1,024, up to 0.7 MB each.
torch keeps as many again in front of them. Tensors of so many sizes leave holes in the heap.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # malloc.h's names for mallopt
PRODUCTS = {
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",  # oneDNN compiles an evicted product again
    "LRU_CACHE_CAPACITY": "64",  # torch's own cache; an evicted product comes from oneDNN's, in 6 us
}


def keep_few_products() -> None:
    """Makes both caches keep fewer products. Call it before the first one; the user's own settings win."""
    for name, count in PRODUCTS.items():
        os.environ.setdefault(name, count)


@contextlib.contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Makes the heap keep freed memory during the block, where the C library can (glibc).

    By default it returns large blocks at once, and each step requests them again: some 8,000 new pages per step, a
    tenth of its time. After the block the free pages go back to the system, and blocks of 4 MB or more go back when
    freed: a release has few wide blocks, and smaller ones between them would leave holes in the heap.
    """
    choose = _glibc_function("mallopt")
    choose(MMAP_THRESHOLD, 2**25)  # the value it would reach by itself
    choose(TRIM_THRESHOLD, 2**28)
    try:
        yield
    finally:
        choose(MMAP_THRESHOLD, 2**22)
        choose(TRIM_THRESHOLD, 2**24)
        return_freed()


def return_freed() -> None:
    """Returns the heap's free pages to the system, where the C library can (glibc); takes some 30 ms."""
    _glibc_function("malloc_trim")(0)


def _glibc_function(name: str) -> Callable[..., object]:
    """Returns the C library's function, or one that does nothing if it has none of this name."""
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    return function or (lambda *_: None)
