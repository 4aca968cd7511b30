"""What a long CPU training would keep of the memory that it has freed, or may want again.

Batches come in hundreds of shapes. oneDNN compiles a bf16 product for each and keeps the last 1,024, which is worth its
memory. torch keeps as many again in front of them, and the tensors of so many sizes leave holes in the heap.
"""

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # malloc.h's names for mallopt
SECOND_CACHE = "LRU_CACHE_CAPACITY"  # torch's own: a product that it has forgotten comes from oneDNN's cache, in 6 us


def keep_products_once() -> None:
    """Leave few products in torch's cache of them; before the first one in this process, a user's word goes first."""
    os.environ.setdefault(SECOND_CACHE, "64")


def keep_freed() -> None:
    """Have the heap keep what is freed, where the C library can (glibc), until `return_freed`.

    By itself it gives large blocks back at once, and each step asks for them again: some 8,000 new pages a step, a
    tenth of its time.
    """
    choose = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if choose is not None:
        choose(MMAP_THRESHOLD, 2**25)  # as far as it would rise by itself
        choose(TRIM_THRESHOLD, 2**28)


def return_freed() -> None:
    """Give the heap's free pages back to the system, where the C library can (glibc); some 30 ms."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
