"""What a long CPU training would keep of the memory that it has freed, or may want again.

Batches come in hundreds of shapes. oneDNN compiles a bf16 product for each and would keep the last 1,024, up to 0.7 MB
each; torch as many again in front of them; and the tensors of so many sizes leave holes in the heap.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # malloc.h's names for mallopt
PRODUCTS = {
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",  # oneDNN's own: one that it has forgotten is compiled again
    "LRU_CACHE_CAPACITY": "64",  # torch's, in front: one that it has forgotten comes from oneDNN's, in 6 us
}


def keep_few_products() -> None:
    """Have both caches keep fewer products; before the first one in this process, a user's word goes first."""
    for name, count in PRODUCTS.items():
        os.environ.setdefault(name, count)


@contextlib.contextmanager
def freed_is_kept() -> Iterator[None]:
    """Have the heap keep what is freed for the length of the block, where the C library can (glibc).

    By itself it gives large blocks back at once, and each step asks for them again: some 8,000 new pages a step, a
    tenth of its time. Behind the block the free pages go back, and so do blocks from 4 MB on when they are freed: a
    release's are wide and few, and between them the heap would get holes.
    """
    choose = _of_glibc("mallopt")
    choose(MMAP_THRESHOLD, 2**25)  # as far as it would rise by itself
    choose(TRIM_THRESHOLD, 2**28)
    try:
        yield
    finally:
        choose(MMAP_THRESHOLD, 2**22)
        choose(TRIM_THRESHOLD, 2**24)
        return_freed()


def return_freed() -> None:
    """Give the heap's free pages back to the system, where the C library can (glibc); some 30 ms."""
    _of_glibc("malloc_trim")(0)


def _of_glibc(name: str) -> Callable[..., object]:
    """The C library's function, or one that does nothing where there is none of the name."""
    found = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    return found or (lambda *_: None)
