"""What a training gives back: memory that lies free in the heap, and what a user's environment says is kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.model.memory import PRODUCTS, keep_few_products, keep_freed_memory, return_freed

HOLES = """
from dragoman.model.memory import return_freed

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

blocks = [bytearray(100_000) for _ in range(2_000)]
kept = blocks[::20]
del blocks
before = resident()
return_freed()
print(before - resident())
"""

AGAIN = """
import resource
from dragoman.model.memory import keep_freed_memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytearray(20 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

by_itself = pages()
with keep_freed_memory():
    pages()
    kept = pages()
print(by_itself, kept, pages())
"""


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="another C library than glibc")
def test_what_is_freed_is_kept_for_the_next_step() -> None:
    """Blocks of 20 MiB, one after the other: new pages each time, none where the heap keeps them, and again behind."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", AGAIN], cwd=root, capture_output=True, text=True, check=True)
    by_itself, kept, behind = map(int, done.stdout.split())
    assert kept < by_itself / 10
    assert behind > by_itself / 2


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="another C library than glibc")
def test_holes_in_the_heap_go_back_to_the_system() -> None:
    """200 MB in blocks that the heap holds, of which one in twenty stays."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", HOLES], cwd=root, capture_output=True, text=True, check=True)
    assert float(done.stdout) > 100


def test_without_such_a_library_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    return_freed()
    with keep_freed_memory():
        pass


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_users_word_goes_first(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "7")
    keep_few_products()
    assert os.environ[name] == "7"
    monkeypatch.delenv(name)
    keep_few_products()
    assert os.environ[name] == PRODUCTS[name]
