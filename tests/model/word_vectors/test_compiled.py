"""Where machine code is kept."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODULE = """
import numpy as np
from dragoman.model.word_vectors.compiled import compiled, inlined

@inlined
def double(x):
    return 2 * x

@compiled
def quadruple(x):
    return double(double(x))
"""
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import small
print(small.quadruple(3), sum(small.quadruple.stats.cache_hits.values()))
"""


def answer(folder: Path, kept: Path, code: str = CODE) -> list[str]:
    """What CODE prints in a process of its own."""
    (folder / "small.py").write_text(MODULE)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(kept)}
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout.split()


def test_a_second_process_finds_the_code_of_the_first(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert answer(tmp_path, kept) == ["12", "0"]
    assert answer(tmp_path, kept) == ["12", "1"]
    (place,) = kept.iterdir()
    assert place.name.startswith("compiled-"), "named after the digest of all sources"


def test_code_that_cannot_be_kept_is_compiled_all_the_same(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way of every folder")
    no_other_place = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = caching.CacheImpl._locator_classes[:1]\n"
    )
    assert answer(tmp_path, blocked, no_other_place + CODE) == ["12", "0"]
