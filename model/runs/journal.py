"""The run's own record: one line of JSON per step, in RUN/steps.jsonl, written by rank 0.

`{"step", "loss", "nll", "tokens", "lr", "norm", "batch", "seconds"}`: loss and nll in nats per target token, `batch` a
digest of the record ids of every lane, so that two runs can be compared batch by batch. An evaluation has its own line:
`{"step", "valid_loss", "valid_perplexity", "valid_items"[, "valid_bleu"], "seconds"}`. A resumed run cuts off the lines
after its checkpoint and writes them again.

Word vectors have one line for several steps, `"steps"` of them; its `batch` is the sum of their segments' digests.

RUN/starts.jsonl has a line per start that reached training, `{"attempt", "step", "workers"}`: the step after which it
continued, and the number of workers.
"""

import json
import logging
import time
import zlib
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

from dragoman.model.files import atomic_write
from dragoman.model.runs.lines import JournalReader
from dragoman.model.runs.paths import STEPS

logger = logging.getLogger(__name__)


class Journal:
    """Appends lines and flushes each, so that a reader sees it at once."""

    def __init__(self, run: Path, step: int) -> None:
        """Continues after `step`."""
        path = run / STEPS
        kept = [line for line in lines(path) if line["step"] <= step]
        atomic_write(path, "".join(_text(line) for line in kept))
        self._file: TextIO = path.open("a", encoding="utf-8")
        self._before = kept[-1]["seconds"] if kept else 0.0
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Returns the seconds of training, over all starts of the run."""
        return self._before + time.monotonic() - self._started

    def write(self, line: dict[str, Any]) -> None:
        """Appends a line; a number that is not finite is null, as JSON has no other."""
        values = {
            key: None if isinstance(value, float) and not isfinite(value) else value for key, value in line.items()
        }
        self._file.write(_text({**values, "seconds": round(self.seconds, 3)}))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def append(run: Path, name: str, line: dict[str, Any]) -> None:
    """Adds a line to one of the run's small files."""
    atomic_write(run / name, "".join(_text(record) for record in (*lines(run / name), line)))


def step_digest(lanes: Iterable[float]) -> str:
    """Returns the digest of a step's batches, from those of all lanes in order: the same for any number of workers."""
    return f"{zlib.crc32(repr([int(lane) for lane in lanes]).encode()):08x}"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of one of the run's files; a damaged one is left out with a warning."""
    reader = JournalReader(path, most=None)
    yield from reader.lines()
    for note in reader.notes:
        logger.warning(f"{path.parent}: {note}; it is left out")


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"
