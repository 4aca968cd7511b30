"""What a long CPU training would keep of the memory that it has freed, or may want again.

Batches come in hundreds of shapes. oneDNN compiles a bf16 product for each and keeps the last 1,024, which is worth its
memory. torch keeps as many again in front of them, and the tensors of so many sizes leave holes in the heap.
"""

import ctypes
import os
import sys

SECOND_CACHE = "LRU_CACHE_CAPACITY"  # torch's own: a product that it has forgotten comes from oneDNN's cache, in 6 us


def keep_products_once() -> None:
    """Leave few products in torch's cache of them; before the first one in this process, a user's word goes first."""
    os.environ.setdefault(SECOND_CACHE, "64")


def return_freed() -> None:
    """Give the heap's free pages back to the system, where the C library can (glibc); some 30 ms."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
