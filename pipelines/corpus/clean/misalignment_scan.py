"""Misalignment over a whole corpus: fits the detector to a sample, scans all blocks as tasks, settles the suspects."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.model.files import atomic_open
from dragoman.model.plural import plural
from dragoman.pipelines.corpus.clean.block import load_block, load_result, save_result
from dragoman.pipelines.corpus.clean.misalignment import (
    LEAST_LINES,
    SAMPLE_LINES,
    STRIDE,
    Lines,
    Misaligned,
    MisalignmentDetector,
    learn,
    ratios,
    settle,
    suspects,
)
from dragoman.pipelines.corpus.clean.similarity import CanonicalCorrelation
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import Block

_SAMPLED_BLOCKS = 16
_BLIND = 0.55  # a lower separation on a corpus of _ENOUGH lines: the sides match nowhere
_ENOUGH = 2_000
SCANNED = np.dtype([("number", "<i8"), ("ratio", "<f4")])  # a checked line, and its log-likelihood ratio


def prepare_detector(blocks: Sequence[Block], clean: Path, path: Path) -> MisalignmentDetector | None:
    """Returns this corpus' detector, fitted once and stored at `path`; None if the corpus is too small."""
    if path.exists():
        return load_detector(path)
    detector = learn(sample_lines(blocks, clean))
    if detector is not None:
        with atomic_open(path, durable=False) as file:
            np.savez(
                file,
                mean=detector.similarity.mean,
                deviation=detector.similarity.deviation,
                projection=detector.similarity.projection,
                ratio=detector.ratio,
                separation=np.float64(detector.separation),
            )
    return detector


@lru_cache(maxsize=1)
def load_detector(path: Path) -> MisalignmentDetector:
    with np.load(path, allow_pickle=False) as arrays:
        similarity = CanonicalCorrelation(arrays["mean"], arrays["deviation"], arrays["projection"])
        return MisalignmentDetector(similarity, arrays["ratio"], float(arrays["separation"]))


def scan_block(clean: Path, detector: Path, folder: Path, block: Block) -> int:
    """Writes the log-likelihood ratios of every STRIDE-th pair of a clean block, once; returns the block's number.

    Args:
        clean: the folder of clean blocks.
        detector: the file of `prepare_detector`.
        folder: for results.
    """

    def scan() -> npt.NDArray[np.void]:
        loaded, looked = load_block(clean, block.number), slice(None, None, STRIDE)
        source, target = loaded.texts()
        lines = Lines(loaded.line[looked].astype(np.int64) + block.first_line, source[looked], target[looked])
        scanned = np.zeros(len(lines.number), SCANNED)
        if lines.source:
            scanned["number"], scanned["ratio"] = lines.number, ratios(load_detector(detector), lines)
        return scanned

    return save_result(folder, block.number, scan)


def misaligned_runs(
    detector: MisalignmentDetector, sources: Sequence[Source], blocks: Sequence[Block], clean: Path, folder: Path
) -> dict[str, list[Misaligned]]:
    """Returns source name -> runs, for all sources that have any, from the finished scans."""
    by_part: dict[str, list[Misaligned]] = {}
    lines = sum(block.lines for block in blocks)
    if lines >= _ENOUGH and detector.separation < _BLIND:
        return {
            source.name: [Misaligned(0, sum(block.lines for block in blocks if block.source is source) - 1)]
            for source in sources
        }
    for source in sources:
        own = [block for block in blocks if block.source == source]
        if sum(block.lines for block in own) < LEAST_LINES:
            continue
        read = _reader(own, clean)
        scans = (load_result(folder, block.number, 0, SCANNED) for block in own)
        settled = (settle(detector, run, read) for run in suspects(scans))
        runs = _join_runs([run for run in settled if run is not None])
        if runs:
            by_part[source.name] = runs
    return by_part


def describe(source: Source, run: Misaligned) -> str:
    """Returns the message to the user about a run."""
    where = " and ".join(file.name for file in source.files)
    text = f"{where}: lines {run.first + 1} to {run.last + 1} are not translations of each other (misaligned)"
    if run.shift:
        way = "late" if run.shift > 0 else "early"
        text += f"; there the target side is {plural(abs(run.shift), 'line')} {way}"
    return text


def sample_lines(
    blocks: Sequence[Block], clean: Path, lines: int = SAMPLE_LINES, spread: int = _SAMPLED_BLOCKS
) -> Lines:
    """Samples adjacent pairs of lines (one of each parity), evenly over blocks spread evenly over the corpus."""
    chosen = [blocks[i] for i in np.unique(np.linspace(0, len(blocks) - 1, spread).round().astype(int))]
    sample = Lines(np.empty(0, np.int64))
    numbers = []
    for block in chosen:
        loaded = load_block(clean, block.number)
        source, target = loaded.texts()
        count = min(len(source), lines // len(chosen)) // 2
        first = np.linspace(0, max(0, len(source) - 2), count).astype(np.int64)
        picked = np.unique(np.concatenate([first, first + 1])) if count else first
        sample.source += [source[i] for i in picked]
        sample.target += [target[i] for i in picked]
        numbers.append(loaded.line[picked].astype(np.int64) + block.first_line)
    sample.number = np.concatenate(numbers)
    return sample


def _reader(blocks: Sequence[Block], clean: Path) -> Callable[[int, int], Lines]:
    """Returns a reader of line ranges of one source, whose blocks these are."""

    firsts = [block.first_line for block in blocks]

    @lru_cache(maxsize=2)
    def texts(place: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[str], list[str]]:
        loaded = load_block(clean, blocks[place].number)
        source, target = loaded.texts()
        return loaded.line.astype(np.int64) + blocks[place].first_line, source, target

    def read(start: int, stop: int) -> Lines:
        result = Lines(np.empty(0, np.int64))
        for place in range(bisect_right(firsts, start) - 1, bisect_left(firsts, stop)):
            number, source, target = texts(place)
            low, high = np.searchsorted(number, (start, stop)).tolist()
            result.number = np.concatenate([result.number, number[low:high]])
            result.source += source[low:high]
            result.target += target[low:high]
        return result

    return read


def _join_runs(runs: list[Misaligned]) -> list[Misaligned]:
    """Joins adjacent runs with the same shift."""
    joined: list[Misaligned] = []
    for run in sorted(runs, key=lambda run: run.first):
        if joined and run.first <= joined[-1].last + STRIDE:
            before = joined.pop()
            shift = run.shift if run.shift == before.shift else None
            run = Misaligned(before.first, max(before.last, run.last), shift)
        joined.append(run)
    return joined
