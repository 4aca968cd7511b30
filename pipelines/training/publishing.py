"""One start of a run on a rank, for both training loops: its journal, and its checkpoints.

The files of a run that stands for an address are sent by a thread beside the loop.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.model.runs import attempts, checkpoints
from dragoman.model.runs.journal import Journal
from dragoman.model.storage.mirror import remote_of
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.training import checkpoint, stopping


@dataclass
class Publisher:
    """One start of a run in one process: its journal, its clock, the requests to stop, its checkpoints."""

    run: Path
    ranks: Ranks
    attempt: int
    journal: Journal | None = None  # of the first rank, from `begin` on
    seconds: float = 0.0  # of training, over all starts of the run
    stops: bool = False  # the run must stop at this step
    _saved: float = 0.0  # `seconds` of the last checkpoint

    def begin(self, step: int) -> None:
        """Notes that this start goes on after `step`, and opens the journal of the first rank."""
        if self.ranks.first:
            self.journal = Journal(self.run, step)
            attempts.note_start(self.run, self.attempt, step, self.ranks.world)
        self.sum(torch.zeros(0, dtype=torch.float64, device=self.ranks.device))
        self._saved = self.seconds

    def resume(self) -> tuple[Path, dict[str, dict[str, Tensor]], dict[str, Any]] | None:
        """Returns the newest checkpoint that the first rank sees, with its tensors and state; None if there is none."""
        newest = self.ranks.from_first(checkpoints.newest(self.run) if self.ranks.first else None)
        return None if newest is None else (newest, *checkpoint.read(newest))

    def sum(self, values: Tensor) -> list[float]:
        """Returns the sums of (N,) float64 over all ranks, and takes the first one's clock and request to stop."""
        clock = (self.journal.seconds, stopping.is_asked(self.run)) if self.journal else (0, 0)
        *sums, seconds, stops = self.ranks.sum(torch.cat([values, values.new_tensor(clock)])).tolist()
        self.seconds, self.stops = seconds, bool(stops)
        return sums

    def write(self, line: dict[str, Any]) -> None:
        """Writes a line of the journal, on the first rank."""
        if self.journal:
            self.journal.write(line)

    def is_due(self, minutes: float) -> bool:
        """Returns True if a checkpoint is due by the clock (`minutes` after the last, 0: never) or before a stop."""
        return self.stops or 0 < 60 * minutes <= self.seconds - self._saved

    def saved(self) -> None:
        """Ends a save on every rank: the next one by the clock counts from here, and nobody goes on before."""
        self._saved = self.seconds
        self.ranks.wait()

    def checkpoint(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
        keep_checkpoints: int,
        choose: Callable[[list[int]], Collection[int]] = lambda steps: (),
        kept: bool = True,
    ) -> None:
        """Saves a checkpoint on the first rank; see `checkpoint.write` and `prune`."""
        checkpoint.write(self.run, step, self.attempt, tensors, state, kept)
        checkpoint.prune(self.run, keep_checkpoints, choose)


class Speed:
    """Tokens or words per second since the last call."""

    def __init__(self) -> None:
        self._items, self._since = 0.0, time.monotonic()

    def count(self, items: float) -> None:
        self._items += items

    def rate(self) -> float:
        now = time.monotonic()
        rate = self._items / max(now - self._since, 1e-9)
        self._items, self._since = 0.0, now
        return rate


@contextlib.contextmanager
def publisher(run: Path, ranks: Ranks) -> Iterator[Publisher]:
    """Takes over the run on all ranks: gets its newest files on each machine, and begins the next attempt.

    At the end of the block everything saved is sent; after an error, as much as possible.

    Raises StaleAttemptError: another start has taken over. Raises ServiceError: the last checkpoint could not be sent;
    the same command sends it.
    """
    elsewhere = remote_of(run)
    publish = Publisher(run, ranks, 0)
    with contextlib.ExitStack() as stack:
        if elsewhere is None:
            publish.attempt = ranks.from_first(attempts.next_attempt(run) if ranks.first else None)
        else:
            from dragoman.pipelines.training import snapshots  # with the libraries of addresses

            publish.attempt = ranks.from_first(snapshots.begin(run, elsewhere) if ranks.first else None)
            if not ranks.first:
                snapshots.pull(run, elsewhere)
            ranks.wait()
            if ranks.first:  # not before: ranks of its machine have its folder, and may fetch into it until here
                stack.enter_context(snapshots.sending(run, elsewhere, publish.attempt))
        try:
            yield publish
        finally:
            if publish.journal:
                publish.journal.close()


def pull(run: Path) -> None:
    """Gets the newest files of a run that stands for an address; a plain folder stays as it is."""
    elsewhere = remote_of(run)
    if elsewhere is not None:
        from dragoman.pipelines.training import snapshots

        snapshots.pull(run, elsewhere)


def pull_own(run: Path) -> bool:
    """Does the same for the files of this attempt; returns False if another attempt has taken over."""
    elsewhere = remote_of(run)
    if elsewhere is not None:
        from dragoman.pipelines.training import snapshots

        if snapshots.newest(elsewhere).attempt != attempts.current_attempt(run):
            return False
        snapshots.pull(run, elsewhere)
    return True


def publish(run: Path, *results: str) -> None:
    """Sends the contents of a run's folder that stands for an address; `results`: under their own names too.

    Raises StaleAttemptError: another start has taken over, so nothing of ours may be registered. Raises RefusedError,
    AwayError.
    """
    elsewhere = remote_of(run)
    if elsewhere is not None:
        from dragoman.model.storage.transfers import publish_files
        from dragoman.pipelines.training import snapshots

        snapshots.send(run, elsewhere, attempts.current_attempt(run))
        for name in results:
            publish_files(run / name)
