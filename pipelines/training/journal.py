"""The run's own record: one line of JSON a step, in RUN/steps.jsonl, written by rank 0.

`{"step", "loss", "nll", "tokens", "lr", "norm", "batch", "seconds"}`: loss and nll in nats a target token, `batch` a
digest of the record ids of every lane, so that two runs can be compared batch by batch. An evaluation is a line of its
own: `{"step", "valid_loss", "valid_perplexity", "valid_items"[, "valid_bleu"], "seconds"}`. A resumed run cuts off what
came after its checkpoint and writes it again.

Word vectors have a line for several steps, `"steps"` of them; its `batch` is the sum of the digests of their segments.

RUN/starts.jsonl has a line a start that came to training, `{"attempt", "step", "workers"}`: the step after which it
went on, and on how many workers.
"""

import json
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from model.files import atomic_write

NAME = "steps.jsonl"
STARTS = "starts.jsonl"


class Journal:
    """Appends lines; flushed with every one, so a reader beside us sees them."""

    def __init__(self, run: Path, step: int) -> None:
        """Goes on after `step`."""
        path = run / NAME
        kept = [line for line in lines(path) if line["step"] <= step]
        atomic_write(path, "".join(_text(line) for line in kept))
        self._file: TextIO = path.open("a", encoding="utf-8")
        self._before = kept[-1]["seconds"] if kept else 0.0
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time spent training, over all starts of the run."""
        return self._before + time.monotonic() - self._started

    def write(self, line: dict[str, Any]) -> None:
        self._file.write(_text({**line, "seconds": round(self.seconds, 3)}))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def note_start(run: Path, attempt: int, step: int, workers: int) -> None:
    """Add a line to RUN/starts.jsonl: this start goes on after `step`."""
    before = list(lines(run / STARTS))
    start = {"attempt": attempt, "step": step, "workers": workers}
    atomic_write(run / STARTS, "".join(_text(line) for line in (*before, start)))


def step_digest(lanes: Iterable[float]) -> str:
    """The digest of a step's batches, of those of all lanes in their order: the same for any number of workers."""
    return f"{zlib.crc32(repr([int(lane) for lane in lanes]).encode()):08x}"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The journal's lines; a last one that was cut short by a kill is left out."""
    if not path.is_file():
        return
    yield from parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> Iterator[dict[str, Any]]:
    """The lines of a piece of a journal."""
    for line in text.split("\n")[:-1]:
        yield json.loads(line)


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":")) + "\n"
