"""The plan: assigns every pair to training or a held-out split, or drops it for a reason; once for the whole corpus.

The plan depends on the corpus, the rules and the seed, never on the order of tasks. To bound memory, pairs are dealt to
partitions by the hash of their source sentence. Pairs that must be compared share a partition, and one partition is in
memory at a time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.model.files import atomic_open
from dragoman.model.text.text_keys import Keys, contains
from dragoman.pipelines.corpus.clean.block import load_facts, load_keys, load_leak_keys
from dragoman.pipelines.corpus.plan import leaks
from dragoman.pipelines.corpus.read.file_names import SPLITS, Split
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.settings import CorpusConfig

Codes = npt.NDArray[np.uint8]
# A pair's code is its split's index in SPLITS plus 4 x its rule's index in RULES; rule 0 keeps it.
RULES = ("kept", "leaked", "duplicate", "further_reference", *leaks.RULES)
_PARTITION_PAIRS = 1 << 18  # pairs compared at a time, about 8 MB
_BUFFERED_BLOCKS = 16  # blocks dealt to partition files at a time
_MOST_PARTITIONS = 4096
_DEALT = np.dtype([("source", "<u8"), ("pair", "<u8"), ("ordinal", "<u8"), ("split", "u1")])
CODES, STARTS = "plan.codes", "plan.starts"  # one byte per clean pair; the start of each block's codes, and the end


def code(split: str, rule: str = "kept") -> int:
    """Returns the code of a pair of `split` judged by `rule`."""
    return SPLITS.index(split) + 4 * RULES.index(rule)


def load_codes(folder: Path, block: int) -> Codes:
    """Returns the codes of one block's clean pairs, in order."""
    start, stop = np.fromfile(folder / STARTS, "<u8", count=2, offset=8 * block).tolist()
    return np.fromfile(folder / CODES, np.uint8, count=stop - start, offset=start)


@dataclass(frozen=True)
class Span:
    """The blocks `first` to `end` - 1 of one part, and the tags that stand before its source sentences."""

    part: str
    prefix: str
    first: int
    end: int


def spans_of(blocks: Sequence[Block], prefixes: Mapping[str, str]) -> tuple[Span, ...]:
    """Returns the spans in the order of the blocks; `prefixes`: part -> its tags as text."""
    spans = []
    for part, group in groupby(blocks, key=lambda block: block.source.part):
        numbers = [block.number for block in group]
        spans.append(Span(part, prefixes.get(part, ""), numbers[0], numbers[-1] + 1))
    return tuple(spans)


@dataclass
class Plan:
    """The decision for each pair on disk (see `load_codes`), and the sums."""

    folder: Path
    kept: dict[str, list[int]]  # split -> kept pairs of each block
    dropped: dict[str, dict[str, int]]  # split -> rule -> pairs
    changed: dict[str, dict[str, int]]  # source name -> normalisation -> lines
    parts: tuple[Span, ...] = ()  # of a mix

    def records(self, split: str) -> int:
        """Returns the number of pairs that the split keeps."""
        return sum(self.kept[split])

    def spans(self) -> tuple[Span, ...]:
        """Returns the parts of a mix; for another corpus one span with all blocks."""
        return self.parts or (Span("", "", 0, len(self.kept["train"])),)

    def records_of(self, part: str) -> dict[str, int]:
        """Returns split -> the pairs of a part that it keeps."""
        spans = [span for span in self.parts if span.part == part]
        return {
            split: number
            for split, kept in self.kept.items()
            if (number := sum(sum(kept[span.first : span.end]) for span in spans))
        }

    def prefix(self, block: int) -> str:
        """Returns the tags before the source sentences of a block, as text."""
        return next((span.prefix for span in self.parts if span.first <= block < span.end), "")


def make_plan(blocks: Sequence[Block], clean: Path, scratch: Path, config: CorpusConfig, seed: int) -> Plan:
    """Decides about every clean pair in the folder `clean`, unless that was done before."""
    return make_plan_by(blocks, clean, scratch, lambda: _decide(blocks, clean, scratch, config, seed))


def make_plan_by(blocks: Sequence[Block], clean: Path, scratch: Path, decide: Callable[[], None]) -> Plan:
    """Returns the plan from the codes that `decide` writes once."""
    summary = scratch / "plan.json"
    stored = read_json(summary)
    if stored is None:
        decide()
        stored = _sum_counts(blocks, clean, scratch)
        write_json(summary, stored)
    return Plan(scratch, stored["kept"], stored["dropped"], stored["changed"])


def _decide(blocks: Sequence[Block], clean: Path, scratch: Path, config: CorpusConfig, seed: int) -> None:
    held = {split: _held_out_keys(blocks, clean, split) for split in leaks.HELD_OUT}
    own = forbidden_keys(held)
    guarded = leaks.guarded_splits(config, {block.source.split for block in blocks})

    def split_codes(block: Block, source: Keys) -> Codes:
        codes = _drawn_codes(block, source, config, seed)
        mark_leaked(codes, source, own[block.source.split])
        return codes

    forbidden = leaks.forbidden_to(_guarded_keys(blocks, clean, config, guarded, split_codes))
    partitions = Partitions(scratch / "partitions", sum(block.lines for block in blocks))

    def each() -> Iterator[Codes]:
        first = 0
        for block in blocks:
            source, pair = load_keys(clean, block.number)
            codes = split_codes(block, source)
            if guarded:
                _mark_near_copies(codes, load_leak_keys(clean, block.number), forbidden)
            if block.source.split == "train":
                partitions.deal(codes, source, pair, first)
            first += len(codes)
            yield codes

    write_codes(scratch, each(), partitions, config)


def forbidden_keys(held: Mapping[Split, Keys]) -> dict[Split, Keys]:
    """Returns split -> sorted keys that its records must not have."""
    none = np.empty(0, np.uint64)
    return {split: reduce(np.union1d, (held[name] for name in leaks.OTHERS.get(split, ())), none) for split in SPLITS}


def _guarded_keys(
    blocks: Sequence[Block],
    clean: Path,
    config: CorpusConfig,
    guarded: Sequence[Split],
    split_codes: Callable[[Block, Keys], Codes],
) -> dict[Split, list[Keys]]:
    """Returns split -> (4, n) keys of its pairs, block by block, for splits guarded on both sides."""
    held: dict[Split, list[Keys]] = {split: [] for split in guarded}
    cuts = any(config.cut.share(split) for split in guarded)
    for block in blocks:
        if block.source.split in guarded or (cuts and block.source.split == "train"):
            codes = split_codes(block, load_keys(clean, block.number)[0])
            keys = load_leak_keys(clean, block.number)
            for split in guarded:
                held[split].append(keys[:, codes == code(split)])
    return held


def write_codes(folder: Path, each: Iterable[Codes], partitions: "Partitions", config: CorpusConfig) -> None:
    """Writes the codes, block after block, and then judges the pairs that were dealt to partitions."""
    starts = [0]
    with atomic_open(folder / CODES, durable=False) as out:
        for codes in each:
            out.write(codes.tobytes())
            starts.append(starts[-1] + len(codes))
        out.flush()
        if starts[-1]:
            codes = np.memmap(out.name, np.uint8, "r+", shape=(starts[-1],))
            for dealt in partitions.each():
                _judge_repeats(codes, dealt, config)
            codes.flush()
            del codes
    partitions.remove()
    with atomic_open(folder / STARTS, durable=False) as out:
        np.asarray(starts, "<u8").tofile(out)


def _held_out_keys(blocks: Sequence[Block], clean: Path, split: Split) -> Keys:
    """Returns the sorted source keys of a split that is given by files."""
    keys = [load_keys(clean, block.number)[0] for block in blocks if block.source.split == split]
    return np.unique(np.concatenate(keys)) if keys else np.empty(0, np.uint64)


def _drawn_codes(block: Block, source: Keys, config: CorpusConfig, seed: int) -> Codes:
    """Returns (n,) codes of the splits; in training files the hash of each source sentence draws them."""
    codes = np.full(len(source), code(block.source.split), np.uint8)
    if block.source.split == "train":
        draw, below = uniform(source, seed), 0.0
        edges = [(split, below := below + config.cut.share(split)) for split in ("test", "valid", "gate")]
        for split, edge in reversed(edges):
            codes[draw < edge] = code(split)
    return codes


def _mark_near_copies(codes: Codes, keys: Keys, forbidden: Mapping[Split, leaks.HeldOutKeys]) -> None:
    """Gives kept pairs that match a rule of the leak guard the code of the first such rule."""
    for split, others in forbidden.items():
        rows = np.flatnonzero(codes == code(split))
        for rule, marks in reversed(others.find(keys[:, rows]).items()):
            codes[rows[marks]] = code(split, rule)


def mark_leaked(codes: Codes, keys: Keys, forbidden: Keys) -> None:
    """Gives kept pairs the code `leaked` if their key is among the sorted `forbidden`."""
    codes[contains(forbidden, keys) & (codes < 4)] += 4 * RULES.index("leaked")


def uniform(keys: Keys, seed: int) -> npt.NDArray[np.float64]:
    """Returns (n,) numbers in [0, 1) that depend only on key and seed (SplitMix64's finaliser, Steele et al. 2014)."""
    mixed = keys ^ np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _judge_repeats(codes: Codes, dealt: npt.NDArray[np.void], config: CorpusConfig) -> None:
    """Keeps the first of equal pairs, and the first translation of a held-out source."""
    if config.clean.duplicates:
        repeated = _repeats(dealt, "pair")
        codes[dealt["ordinal"][repeated]] += 4 * RULES.index("duplicate")
        dealt = dealt[~repeated]
    if config.cut.references == "first":
        dealt = dealt[dealt["split"] != code("train")]
        codes[dealt["ordinal"][_repeats(dealt, "source")]] += 4 * RULES.index("further_reference")


def _repeats(dealt: npt.NDArray[np.void], key: str) -> npt.NDArray[np.bool_]:
    """Returns (n,): True for entries whose key an earlier ordinal has too."""
    order = np.lexsort((dealt["ordinal"], dealt[key]))
    ordered = dealt[key][order]
    repeated = np.zeros(len(dealt), bool)
    repeated[order[1:]] = ordered[1:] == ordered[:-1]
    return repeated


def _sum_counts(blocks: Sequence[Block], clean: Path, scratch: Path) -> dict[str, Any]:
    kept: dict[str, list[int]] = {split: [] for split in SPLITS}
    dropped = {split: Counter[str]() for split in SPLITS}
    changed: dict[str, Counter[str]] = {}
    for block in blocks:
        counts = np.bincount(load_codes(scratch, block.number), minlength=4 * len(RULES))
        facts = load_facts(clean, block.number)
        dropped[block.source.split].update(facts["dropped"])
        changed.setdefault(block.source.name, Counter()).update(facts["changed"])
        for split in SPLITS:
            kept[split].append(int(counts[code(split)]))
            dropped[split].update({rule: int(counts[code(split, rule)]) for rule in RULES[1:]})
    return {
        "kept": kept,
        "dropped": {
            split: nonzero
            for split, counts in dropped.items()
            if (nonzero := _without_zeros(counts)) or split != "gate"  # few corpora have a gate
        },
        "changed": {name: _without_zeros(counts) for name, counts in changed.items()},
    }


def _without_zeros(counts: Counter[str]) -> dict[str, int]:
    return {name: number for name, number in sorted(counts.items()) if number}


class Partitions:
    """Pairs by source key, on disk; all pairs of one source sentence are in the same file."""

    def __init__(self, folder: Path, pairs: int) -> None:
        self.folder = folder
        number_of_partitions = max(1, pairs // _PARTITION_PAIRS)
        self.bits = min(number_of_partitions, _MOST_PARTITIONS).bit_length() - 1
        self.waiting: list[npt.NDArray[np.void]] = []
        self.remove()
        folder.mkdir()

    def deal(self, codes: Codes, source: Keys, pair: Keys, first: int) -> None:
        """Deals the kept pairs of a block; `first` is the ordinal of its first pair."""
        rows = np.flatnonzero(codes < 4)
        dealt = np.empty(len(rows), _DEALT)
        dealt["source"], dealt["pair"] = source[rows], pair[rows]
        dealt["ordinal"], dealt["split"] = rows + first, codes[rows]
        self.waiting.append(dealt)
        if len(self.waiting) >= _BUFFERED_BLOCKS:
            self._flush()

    def each(self) -> Iterator[npt.NDArray[np.void]]:
        """Yields one partition after another."""
        self._flush()
        for path in sorted(self.folder.iterdir()):
            yield np.fromfile(path, _DEALT)

    def remove(self) -> None:
        """Deletes the files."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                path.unlink()
            self.folder.rmdir()

    def _flush(self) -> None:
        if not self.waiting:
            return
        dealt = np.concatenate(self.waiting)
        self.waiting = []
        number = dealt["source"] >> np.uint64(64 - self.bits) if self.bits else np.zeros(len(dealt), np.uint64)
        order = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number[order], np.arange((1 << self.bits) + 1, dtype=np.uint64))
        for part in np.flatnonzero(np.diff(bounds)).tolist():
            with (self.folder / f"{part:04d}").open("ab") as file:
                dealt[order[bounds[part] : bounds[part + 1]]].tofile(file)
