"""The code of a pair: its split and the rule that keeps or drops it, in one byte of a file for the whole corpus."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.pipelines.corpus.plan import leaks
from dragoman.pipelines.corpus.read.sources import SPLITS

Codes = npt.NDArray[np.uint8]

# A pair's code is its split's place in SPLITS plus 4 x its rule's place in RULES; rule 0 keeps it.
RULES = ("kept", "leaked", "duplicate", "further_reference", *leaks.RULES)
CODES, STARTS = "plan.codes", "plan.starts"  # one byte per clean pair; the start of each block's codes, and the end


def code(split: str, rule: str = "kept") -> int:
    """Returns the code of a pair of `split` judged by `rule`."""
    return SPLITS.index(split) + 4 * RULES.index(rule)


def load_codes(folder: Path, block: int) -> Codes:
    """Returns the codes of one block's clean pairs, in order."""
    start, stop = np.fromfile(folder / STARTS, "<u8", count=2, offset=8 * block).tolist()
    return np.fromfile(folder / CODES, np.uint8, count=stop - start, offset=start)
