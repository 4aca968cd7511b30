"""The peers of `bench read`, in their own environments: `python -m bench.read_peers arrow|mds FOLDER TOKENS`.

    arrow   Hugging Face `datasets`: a list of ids a side, saved as Arrow and mapped into memory
    mds     mosaicml-streaming: 4,096 pairs a sample, each side packed ids and lengths, whole shards in its own order

Both give windows of pairs to one batcher, written as well as the libraries allow: nothing is done pair by pair in
Python. A window is shuffled, sorted by length and brought into that order by Arrow's `take`; a batch is then one slice
of packed ids a side, padded by one assignment through a mask. Batches are cut by our own `cut`, to the same budget.

FOLDER holds pairs.npz; the first call writes the data set beside it. Prints tokens (both sides, end of sentence
included) a second of processor time, of one epoch after one that warms up.
"""

import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.result import rate
from dragoman.model.text.tokenizer import BOS, PAD
from dragoman.pipelines.loaders.window import cut

BLOCK, WINDOW = 4096, 16  # pairs a block, blocks a window
SIDES = ("source", "target")


def main(library: str, folder: Path, tokens: int) -> float:
    """Tokens a second of processor time."""
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    opened = {"arrow": open_arrow, "mds": open_mds}[library](folder)
    rng = np.random.default_rng(1)

    def epoch() -> int:
        count = 0
        for window in opened(rng):
            for batch in batches(window, tokens, rng):
                assert len(batch) == 3
            count += sum(len(side.values) for side in window)
        return count

    epoch()
    return rate(epoch, time.process_time)


Windows = Callable[[np.random.Generator], Iterator[list[Any]]]  # an epoch's, each an Arrow list of ids a side


def batches(window: list[Any], tokens: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """All batches of a window in random order: source (B, S), target behind BOS and with its end (B, T), int64."""
    lengths = [np.diff(side.offsets.to_numpy()) for side in window]
    rows, parts = cut(rng.permutation(len(lengths[0])), lengths[0], lengths[1], tokens)
    packed = []
    for side, own in zip(window, lengths, strict=True):
        ordered = side.take(pa.array(rows))
        packed.append((ordered.values.to_numpy(), ordered.offsets.to_numpy(), own[rows]))
    for number in rng.permutation(len(parts)):
        source, target_out = (torch.from_numpy(pad(*side, parts[number])) for side in packed)
        target_in = torch.cat([torch.full((len(target_out), 1), BOS), target_out[:, :-1]], 1)
        yield source, target_in.masked_fill_(target_out == PAD, PAD), target_out


def pad(values: NDArray[Any], offsets: NDArray[Any], lengths: NDArray[Any], part: slice) -> NDArray[np.int64]:
    """Neighbouring rows of packed ids, (B, W) int64 with 0 behind."""
    own = lengths[part]
    out = np.zeros((len(own), int(own.max())), dtype=np.int64)
    out[np.arange(out.shape[1]) < own[:, None]] = values[offsets[part.start] : offsets[part.stop]]
    return out


def open_arrow(folder: Path) -> Windows:
    """Blocks of neighbouring rows in random order, a window of them at a time."""
    import datasets

    path = folder / "arrow"
    if not path.exists():
        columns = {side: pa.ListArray.from_arrays(offsets(lengths), ids) for side, ids, lengths in pairs(folder)}
        datasets.Dataset(pa.table(columns)).save_to_disk(path)
    data = datasets.load_from_disk(str(path)).with_format("arrow")

    def windows(rng: np.random.Generator) -> Iterator[list[Any]]:
        order = rng.permutation(-(-len(data) // BLOCK))
        for first in range(0, len(order), WINDOW):
            parts = [data[int(i) * BLOCK : (int(i) + 1) * BLOCK] for i in order[first : first + WINDOW]]
            yield [pa.concat_arrays([chunk for part in parts for chunk in part[side].chunks]) for side in SIDES]

    return windows


def open_mds(folder: Path) -> Windows:
    """Samples in the order that StreamingDataset shuffles them to, a window of them at a time."""
    # Only its image data sets use torchvision, whose wheel does not load beside a torch without CUDA.
    names = ("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.transforms.functional")
    sys.modules.update({name: MagicMock(__spec__=ModuleSpec(name, None), VisionDataset=object) for name in names})
    from streaming import MDSWriter, StreamingDataset

    path = folder / "mds"
    if not path.exists():
        columns = {f"{side}{what}": "ndarray:uint16" for side in SIDES for what in ("", "_lengths")}
        sides = [(side, ids, lengths, offsets(lengths)) for side, ids, lengths in pairs(folder)]
        with MDSWriter(out=str(path), columns=columns, size_limit=1 << 24) as writer:
            for first in range(0, len(sides[0][2]), BLOCK):
                sample = {}
                for side, ids, lengths, bounds in sides:
                    last = min(first + BLOCK, len(lengths))
                    sample[side] = ids[bounds[first] : bounds[last]]
                    sample[f"{side}_lengths"] = lengths[first:last].astype(np.uint16)
                writer.write(sample)
    data = StreamingDataset(local=str(path), shuffle=True, batch_size=1, num_canonical_nodes=1)

    def windows(rng: np.random.Generator) -> Iterator[list[Any]]:
        samples = iter(data)
        for _ in range(0, len(data), WINDOW):
            group = list(islice(samples, WINDOW))
            yield [
                pa.ListArray.from_arrays(
                    offsets(np.concatenate([sample[f"{side}_lengths"] for sample in group])),
                    np.concatenate([sample[side] for sample in group]),
                )
                for side in SIDES
            ]

    return windows


def pairs(folder: Path) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """(side, packed ids, lengths) of both sides."""
    with np.load(folder / "pairs.npz") as saved:
        for side in SIDES:
            yield side, saved[side], saved[f"{side}_lengths"]


def offsets(lengths: NDArray[Any]) -> NDArray[np.int32]:
    """Where each row begins, and where the last ends."""
    return np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])


if __name__ == "__main__":
    print(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
