"""The leak guard over both sides: what a held-out pair says, in either language, is not trained on.

A training pair goes where one of its sides is a held-out one, but for case (`leaked` by source, `leaked_target`), where
it is one turned round (`leaked_reversed`), and where a side is a near-copy (`leaked_near`, see `compiled_keys`). The
held-out pair always stays and the training pair goes: near-copies chain from sentence to sentence over both sides, and
groups that are kept together would grow over half of a corpus such as Tatoeba.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pipelines.corpus import near_words
from pipelines.corpus.keys import Keys
from pipelines.corpus.settings import CorpusConfig
from pipelines.corpus.sources import SPLITS, Split

# In the order in which they are tried; those of `near_words` only with corpus.near_words=drop.
RULES = ("leaked_target", "leaked_reversed", "leaked_near", *near_words.RULES)
HELD_OUT = SPLITS[1:]
Marks = npt.NDArray[np.bool_]


def leak_rules(config: CorpusConfig) -> Literal["auto", "near", "source"]:
    """`corpus.leaks`, of the phrasebook settled: its grammar says much the same in every split by design, with sources
    that differ, and near-copies would be most of it."""
    return "source" if config.leaks == "auto" and config.format == "phrasebook" else config.leaks


def guarded_splits(config: CorpusConfig, given: set[Split]) -> tuple[Split, ...]:
    """The held-out splits whose both sides are guarded; `given`: those that are files.

    By `auto` a given validation set is guarded by its sources, as it always was: nothing is reported on it, and
    published figures are of training sets that share a caption or two with theirs.
    """
    rules = leak_rules(config)
    if rules == "source":
        return ()
    return tuple(split for split in HELD_OUT if rules == "near" or split != "valid" or split not in given)


@dataclass(frozen=True)
class HeldOutKeys:
    """Sorted hashes of held-out pairs, 32 bytes a pair: source, target, and both as near-copies share them."""

    source: Keys
    target: Keys
    near: Keys  # of either side

    @staticmethod
    def of(found: Sequence[Keys]) -> "HeldOutKeys":
        """Of the (4, n) `leak_keys` of blocks."""
        rows = np.concatenate([np.empty((4, 0), np.uint64), *found], axis=1)
        near = np.unique(rows[2:])
        return HeldOutKeys(np.unique(rows[0]), np.unique(rows[1]), near[near != 0])

    def find(self, keys: Keys) -> dict[str, Marks]:
        """Rule -> (n,) which of the pairs with (4, n) `keys` it drops; a pair may stand under several."""
        return {
            "leaked_target": contains(self.target, keys[1]),
            "leaked_reversed": contains(self.target, keys[0]) | contains(self.source, keys[1]),
            "leaked_near": contains(self.near, keys[2]) | contains(self.near, keys[3]),
        }


# Split -> what its pairs may not say: training nothing that is held out, validation no test and no gate.
OTHERS: dict[Split, tuple[Split, ...]] = {
    "train": ("valid", "test", "gate"),
    "valid": ("test", "gate"),
    "gate": ("test",),
}


def forbidden_to(held: Mapping[Split, Sequence[Keys]]) -> dict[Split, HeldOutKeys]:
    """Split -> what its pairs may not say, by keys."""
    return {
        split: HeldOutKeys.of([keys for name in names for keys in held.get(name, ())])
        for split, names in OTHERS.items()
        if split == "train" or split in held
    }


def contains(ordered: Keys, keys: Keys) -> Marks:
    """(n,) which keys are among the `ordered` ones, which are sorted."""
    if not len(ordered):
        return np.zeros(len(keys), bool)
    place = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: Marks = ordered[place] == keys
    return found
