"""The plan of a text corpus: assigns every record to training or a held-out split, or drops it for a reason.

Splits that are cut from the training files are runs of adjacent records, because a language model reads on from one
record to the next, and random lines of a book are no text. Runs are drawn, or are the last of the text.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.model.errors import UserError
from dragoman.model.text.text_keys import Keys
from dragoman.pipelines.corpus.clean.block import load_keys
from dragoman.pipelines.corpus.plan.plan import (
    Codes,
    Partitions,
    code,
    forbidden_keys,
    mark_leaked,
    uniform,
    write_codes,
)
from dragoman.pipelines.corpus.read.file_names import Split
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.settings import CorpusConfig, CutConfig
from dragoman.pipelines.corpus.sizes import fitting_run

HELD_OUT: tuple[Split, ...] = ("test", "valid", "gate")  # in the order of drawing their runs


def decide_texts(blocks: Sequence[Block], clean: Path, scratch: Path, config: CorpusConfig, seed: int) -> None:
    """Writes the code of every clean record, for `make_plan_by`.

    Held-out records come from the given files or from runs drawn by the seed. A training record that is also held out
    is dropped (`leaked`) unless it is too short to prove a leak; repeated training records are dropped under
    `corpus.clean.duplicates`.
    """
    runs = _draw_runs(blocks, clean, config.cut, seed)
    held: dict[Split, list[Keys]] = {split: [] for split in HELD_OUT}
    for block in blocks:
        if block.source.split != "train" or (block.number in runs and runs[block.number].any()):
            telling, _ = load_keys(clean, block.number)
            codes = _split_codes(block, len(telling), runs, config.cut.run)
            for split in HELD_OUT:
                held[split].append(telling[codes == code(split)])
    forbidden = {
        code(split): keys for split, keys in forbidden_keys({key: _sort_keys(held[key]) for key in HELD_OUT}).items()
    }
    records = sum(block.lines for block in blocks) if config.clean.duplicates else 0
    partitions = Partitions(scratch / "partitions", records)

    def each() -> Iterator[Codes]:
        first = 0
        for block in blocks:
            telling, keys = load_keys(clean, block.number)
            codes = _split_codes(block, len(keys), runs, config.cut.run)
            for own, others in forbidden.items():
                part = np.flatnonzero(codes == own)
                marked = codes[part]
                mark_leaked(marked, telling[part], others)
                codes[part] = marked
            if config.clean.duplicates:
                training = np.where(codes == code("train"), codes, np.uint8(code("train", "leaked")))
                partitions.deal(training, keys, keys, first)  # which leaves out what is dropped
            first += len(codes)
            yield codes

    write_codes(scratch, each(), partitions, config)


def _draw_runs(blocks: Sequence[Block], clean: Path, cut: CutConfig, seed: int) -> dict[int, npt.NDArray[np.uint8]]:
    """Returns training block -> (runs,) code of each of its runs of `cut.run` records; empty if nothing is cut."""
    shares = {split: share for split in HELD_OUT if (share := cut.share(split))}
    if not shares:
        return {}
    lengths = {
        block.number: len(load_keys(clean, block.number)[0]) for block in blocks if block.source.split == "train"
    }
    counts = {number: -(-length // cut.run) for number, length in lengths.items()}
    total = sum(counts.values())
    targets = {split: max(1, round(share * total)) for split, share in shares.items()}
    if sum(targets.values()) >= total:
        records = sum(lengths.values())
        raise UserError(
            f"corpus.cut.run={cut.run}: the training files are {total} run(s) of so many records, too few for "
            f"{' and '.join(f'{split} {share}' for split, share in shares.items())}; "
            f"corpus.cut.run={fitting_run(records, min(shares.values()))} cuts them"
        )
    keys = np.concatenate([np.arange(count, dtype=np.uint64) + (number << 32) for number, count in counts.items()])
    order = np.arange(total)[::-1] if cut.place == "end" else np.argsort(uniform(keys, seed), kind="stable")
    codes = np.full(total, code("train"), np.uint8)
    for split, number in targets.items():
        codes[order[:number]], order = code(split), order[number:]
    ends = np.cumsum(list(counts.values()))
    return dict(zip(counts, np.split(codes, ends[:-1]), strict=True))


def _split_codes(block: Block, records: int, runs: dict[int, npt.NDArray[np.uint8]], run: int) -> Codes:
    """Returns (records,), the code of each record's split."""
    if block.number not in runs:
        return np.full(records, code(block.source.split), np.uint8)
    return np.repeat(runs[block.number], run)[:records]


def _sort_keys(keys: Sequence[Keys]) -> Keys:
    """Returns the distinct keys of records that are long enough to prove a leak."""
    ordered: Keys = np.unique(np.concatenate(keys)) if keys else np.empty(0, np.uint64)
    return np.setdiff1d(ordered, np.zeros(1, np.uint64), assume_unique=True)
