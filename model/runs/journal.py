"""The run's own record: one line of JSON per step, in RUN/steps.jsonl, written by rank 0.

`{"step", "loss", "nll", "tokens", "lr", "norm", "batch", "seconds"}`: loss and nll in nats per target token, `batch` a
digest of the record ids of every lane, so that two runs can be compared batch by batch. An evaluation has its own line:
`{"step", "valid_loss", "valid_perplexity", "valid_items"[, "valid_bleu"], "seconds"}`. A resumed run cuts off the lines
after its checkpoint and writes them again.

Word vectors have one line for several steps, `"steps"` of them; its `batch` is the sum of their segments' digests.

RUN/starts.jsonl has a line per start that reached training, `{"attempt", "step", "workers", "machine", "threads",
"journal", "checkpoint", "beginning"}`: the step after which it continued, the number and kind of workers, the head of
the journal's chain, the sha256 of the manifest of the checkpoint that it resumed from, and of the files that the run
begins from.

RUN/saved.jsonl has a line per checkpoint, `{"step", "manifest"}`: the sha256 of its manifest, which covers the weights
and the optimizer's state.

RUN/evaluations.jsonl has a line per evaluation written to the run's folder, `{"file", "sha256", "scores"}`: the last
is the digest of its scores, which the bundle stores too.

The lines of each file are a chain: `"before"` is the digest of the line before; in the first line it is the digest of
RUN/run.json. A checkpoint, a bundle and a registered version store the head of the chains. Runs from before there was a
chain have lines without `"before"`.
"""

import hashlib
import json
import logging
import time
import zlib
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

from dragoman.model.files import atomic_write, file_sha256
from dragoman.model.runs.lines import JournalReader
from dragoman.model.runs.paths import EVALUATIONS, RECORD, SAVED, STARTS, STEPS
from dragoman.model.runs.record import PLANS, read

logger = logging.getLogger(__name__)
BEFORE = "before"  # in a line: the digest of the line before


class Journal:
    """Appends lines and flushes each, so that a reader sees it at once."""

    def __init__(self, run: Path, step: int) -> None:
        """Continues after `step`."""
        path = run / STEPS
        kept = [line for line in lines(path) if line["step"] <= step]
        atomic_write(path, "".join(_text(line) for line in kept))
        self._run = run
        self._head = digest(kept[-1]) if kept else first_link(run)
        self._file: TextIO = path.open("a", encoding="utf-8")
        self._before = kept[-1]["seconds"] if kept else 0.0
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Returns the seconds of training, over all starts of the run."""
        return self._before + time.monotonic() - self._started

    @property
    def heads(self) -> dict[str, str]:
        """Returns the current heads of the run's chains, for a checkpoint."""
        return {"journal": self._head, "starts": head(self._run, STARTS), "saved": head(self._run, SAVED)}

    def write(self, line: dict[str, Any]) -> None:
        """Appends a line, linked to the one before; a number that is not finite is null, as JSON has no other."""
        values = {
            key: None if isinstance(value, float) and not isfinite(value) else value for key, value in line.items()
        }
        linked = {**values, "seconds": round(self.seconds, 3), BEFORE: self._head}
        self._file.write(_text(linked))
        self._file.flush()
        self._head = digest(linked)

    def close(self) -> None:
        self._file.close()


def note_evaluation(folder: Path, evaluation: Path) -> None:
    """Adds a line to RUN/evaluations.jsonl for an evaluation in the folder of a run whose records are a chain."""
    if (folder / RECORD).is_file() and any(BEFORE in line for line in lines(folder / STEPS)):
        scores = (read(evaluation) or {}).get("scores")
        line = {"file": evaluation.name, "sha256": file_sha256(evaluation), "scores": scores_digest(scores)}
        append(folder, EVALUATIONS, line)


def scores_digest(scores: Any) -> str:
    """Returns the digest of an evaluation's scores."""
    return digest({"scores": scores}, sort_keys=True)


def append(run: Path, name: str, line: dict[str, Any]) -> None:
    """Adds a line to one of the run's small chains."""
    before = list(lines(run / name))
    linked = {**line, BEFORE: digest(before[-1]) if before else first_link(run)}
    atomic_write(run / name, "".join(_text(record) for record in (*before, linked)))


def heads(run: Path) -> dict[str, str]:
    """Returns the heads of the run's chains, for a bundle. Empty for a run whose journal is no chain."""
    chained = any(BEFORE in line for line in lines(run / STEPS))
    return {"journal": head(run, STEPS), "starts": head(run, STARTS), "saved": head(run, SAVED)} if chained else {}


def head(run: Path, name: str) -> str:
    """Returns the digest of the last line of RUN/`name`, of the first link if there is none."""
    last = None
    for line in lines(run / name):
        last = line
    return first_link(run) if last is None else digest(last)


def first_link(run: Path) -> str:
    """Returns the first line's `before`: the digest of RUN/run.json without the plans, to which more are added."""
    record = read(run / RECORD)
    return digest({key: value for key, value in (record or {}).items() if key != PLANS}, sort_keys=True)


def digest(line: dict[str, Any], sort_keys: bool = False) -> str:
    """Returns the digest of a line, however its JSON is spaced."""
    return hashlib.sha256(_text(line, sort_keys).encode()).hexdigest()[:32]


def step_digest(lanes: Iterable[float]) -> str:
    """Returns the digest of a step's batches, from those of all lanes in order: the same for any number of workers."""
    return f"{zlib.crc32(repr([int(lane) for lane in lanes]).encode()):08x}"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of one of the run's files; a damaged one is left out with a warning."""
    reader = JournalReader(path, most=None)
    yield from reader.lines()
    for note in reader.notes:
        logger.warning(f"{path.parent}: {note}; it is left out")


def _text(line: dict[str, Any], sort_keys: bool = False) -> str:
    return json.dumps(line, separators=(",", ":"), sort_keys=sort_keys) + "\n"
