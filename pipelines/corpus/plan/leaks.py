"""The leak guard over both sides: keeps the content of held-out pairs, in either language, out of training.

A training pair is dropped if one of its sides is a held-out one, apart from case (`leaked` by source,
`leaked_target`), if it is a held-out pair reversed (`leaked_reversed`), or if a side is a near-copy (`leaked_near`, see
`dragoman.model.text.text_keys`). The held-out pair always stays: near-copies chain from sentence to sentence over both
sides, so keeping such groups together would take in half of a corpus such as Tatoeba.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dragoman.model.text.text_keys import Keys, contains
from dragoman.pipelines.corpus.read.file_names import SPLITS, Split
from dragoman.pipelines.corpus.settings import CorpusConfig

RULES = ("leaked_target", "leaked_reversed", "leaked_near")  # in the order of checking
HELD_OUT = SPLITS[1:]
# Split -> splits whose content it must not contain: training no held-out one, validation no test and no gate.
OTHERS: dict[Split, tuple[Split, ...]] = {
    "train": ("valid", "test", "gate"),
    "valid": ("test", "gate"),
    "gate": ("test",),
}


def leak_rules(config: CorpusConfig) -> Literal["auto", "near", "source"]:
    """Returns `corpus.leaks`, where `auto` means source for labels, which recur in every split."""
    return "source" if config.leaks == "auto" and config.format == "labelled" else config.leaks


def guarded_splits(config: CorpusConfig, own_files: set[Split]) -> tuple[Split, ...]:
    """Returns the held-out splits that are guarded on both sides; `own_files`: those from files.

    With `auto` a given validation set is guarded only by its sources: no result is reported on it, and published
    figures come from training sets that share a few captions with theirs.
    """
    rules = leak_rules(config)
    if rules == "source":
        return ()
    return tuple(split for split in HELD_OUT if rules == "near" or split != "valid" or split not in own_files)


@dataclass(frozen=True)
class HeldOutKeys:
    """Sorted hashes of held-out pairs, 32 bytes per pair: source, target, and both as near-copies share them."""

    source: Keys
    target: Keys
    near: Keys  # of both sides

    @staticmethod
    def of(keys: Sequence[Keys]) -> "HeldOutKeys":
        """Takes the (4, n) `leak_keys` of blocks."""
        rows = np.concatenate([np.empty((4, 0), np.uint64), *keys], axis=1)
        near = np.unique(rows[2:])
        return HeldOutKeys(np.unique(rows[0]), np.unique(rows[1]), near[near != 0])

    def find(self, keys: Keys) -> dict[str, npt.NDArray[np.bool_]]:
        """Returns rule -> (n,): the pairs with (4, n) `keys` that it drops; several rules may drop the same pair."""
        return {
            "leaked_target": contains(self.target, keys[1]),
            "leaked_reversed": contains(self.target, keys[0]) | contains(self.source, keys[1]),
            "leaked_near": contains(self.near, keys[2]) | contains(self.near, keys[3]),
        }


def forbidden_to(held: Mapping[Split, Sequence[Keys]]) -> dict[Split, HeldOutKeys]:
    """Returns split -> the keys that its pairs must not have."""
    return {
        split: HeldOutKeys.of([keys for name in names for keys in held.get(name, ())])
        for split, names in OTHERS.items()
        if split == "train" or split in held
    }
