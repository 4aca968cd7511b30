"""`corpus.near_words`: marks or drops the training pairs that are nearly a held-out pair, and lists both."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dragoman.pipelines.corpus.clean.block import load_block, load_keys
from dragoman.pipelines.corpus.clean.keys import Keys
from dragoman.pipelines.corpus.plan import leaks
from dragoman.pipelines.corpus.plan.codes import Codes, code, load_codes
from dragoman.pipelines.corpus.plan.near_words import RULES, HeldOutWords, first_rule
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.settings import CorpusConfig

_LEAKING = "near_words.npy"  # (n, 4) block and row of a training pair, and of a held-out pair that it is near
_FOUND = "near_words.json"  # rule -> training pairs near a held-out one; block and row of those held-out pairs


class NearPairs:
    """`corpus.near_words`: the held-out pairs, and what was found near them."""

    def __init__(
        self, blocks: Sequence[Block], clean: Path, config: CorpusConfig, split_codes: Callable[[Block, Keys], Codes]
    ) -> None:
        self._clean, self._drops = clean, config.near_words == "drop"
        self._rows: list[tuple[int, int]] = []  # block and row of each held-out pair, by its number
        self._marked: set[int] = set()
        self._counts = Counter[str](dict.fromkeys(RULES, 0))
        self._pairs_of: list[tuple[int, int, int]] = []  # block and row of a training pair, number of the held-out one
        self._held = HeldOutWords(self._pairs(blocks, config, split_codes)) if config.near_words != "none" else None

    def _pairs(
        self, blocks: Sequence[Block], config: CorpusConfig, split_codes: Callable[[Block, Keys], Codes]
    ) -> Iterator[tuple[str, str, int]]:
        cuts = any(config.cut.share(split) for split in leaks.HELD_OUT)
        for block in blocks:
            if block.source.split == "train" and not cuts:
                continue
            codes = split_codes(block, load_keys(self._clean, block.number)[1])
            source, target = load_block(self._clean, block.number).texts()
            for row in np.flatnonzero((codes < 4) & (codes != code("train"))).tolist():
                self._rows.append((block.number, row))
                yield source[row], target[row], len(self._rows) - 1

    def mark(self, codes: Codes, block: Block) -> None:
        """Finds the block's near training pairs; if they are dropped, their codes become the rule's."""
        places = np.flatnonzero(codes == code("train")).tolist()
        if self._held is None or not places:
            return
        source, target = load_block(self._clean, block.number).texts()
        for row in places:
            names = self._held.near(source[row], target[row])
            if not names:
                continue
            self._marked |= names.keys()
            rule = first_rule(*names.values())
            self._counts[rule] += 1
            self._pairs_of.append((block.number, row, min(name for name, own in names.items() if own == rule)))
            if self._drops:
                codes[row] = code("train", rule)

    def write(self, folder: Path) -> None:
        """Writes the training pairs by rule, and block and row of held-out pairs near them; null: not checked."""
        rows = sorted(self._rows[name] for name in self._marked)
        write_json(folder / _FOUND, None if self._held is None else {"pairs": dict(self._counts), "rows": rows})
        leaking = [(block, row, *self._rows[name]) for block, row, name in self._pairs_of]
        np.save(folder / _LEAKING, np.array(leaking, np.int64).reshape(-1, 4))


def near_pairs(folder: Path) -> dict[str, int]:
    """Returns rule -> training pairs near a held-out one, dropped or not; empty: not checked.

    A pair counts under one rule.
    """
    pairs: dict[str, int] = (read_json(folder / _FOUND) or {}).get("pairs", {})
    return pairs


def leaking_pairs(folder: Path) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yields block and row of each training pair near a held-out one, and those of that held-out pair."""
    for block, row, *held in np.load(folder / _LEAKING, allow_pickle=False).tolist():
        yield (block, row), (held[0], held[1])


def near_lines(folder: Path, kept: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Returns split -> lines (from 0) of its held-out text near a training pair; empty: not checked.

    `kept`: split -> kept pairs of each block.
    """
    found_near = read_json(folder / _FOUND)
    if found_near is None:
        return {}
    lines_of: dict[int, list[int]] = {}
    for block, row in found_near["rows"]:
        lines_of.setdefault(block, []).append(row)
    near: dict[str, list[int]] = {}
    for split in leaks.HELD_OUT:
        if not sum(kept[split]):
            continue
        first, near[split] = 0, []
        for block, pairs in enumerate(kept[split]):
            places = np.flatnonzero(load_codes(folder, block) == code(split)).tolist() if block in lines_of else []
            near[split] += [first + places.index(row) for row in lines_of.get(block, ()) if row in places]
            first += pairs
    return near
