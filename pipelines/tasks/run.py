"""A run while it is trained: its folder and its record in MLflow."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.model.errors import ServiceError, UserError, interrupt_in
from dragoman.model.runs.attempts import StaleAttemptError
from dragoman.model.runs.spool import Spool
from dragoman.pipelines.config import Config
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import resolve_paths
from dragoman.pipelines.tracking.settings import TrackingConfig
from dragoman.pipelines.training import publishing
from dragoman.pipelines.training.stopping import read_reason


@dataclass(frozen=True)
class Run:
    """Opened once by a command, and once by each of its workers, and handed down."""

    folder: Path
    name: str
    tracking: TrackingConfig
    began: float = field(default_factory=time.time)  # the command

    @classmethod
    def of(cls, config: Config) -> "Run":
        """Returns the run that the configuration names, with absolute local paths."""
        return cls(config.run_dir, config.name, resolve_paths(config.tracking))

    def record(self, system: bool = True) -> TrackedRun:
        """Opens the run's record; as a context manager it ends the run."""
        return TrackedRun(self.tracking, self.folder, self.name, system)

    @contextlib.contextmanager
    def shared_record(self, begin: bool = True) -> Iterator[TrackedRun]:
        """Opens the record for the block and hands it to the next process, which may end the run.

        `begin`: record that the run is running. A worker does not, because the command may have ended it meanwhile.
        """
        tracked = TrackedRun(self.tracking, self.folder, self.name, begin=begin)
        try:
            yield tracked
        finally:
            tracked.leave()

    @contextlib.contextmanager
    def closed_record(self) -> Iterator[None]:
        """Closes the record if the block ends with an error."""
        try:
            yield
        except BaseException as problem:
            if Spool(self.folder).status() == "RUNNING":
                self.close_record(problem)
            raise

    def close_record(self, problem: BaseException) -> None:
        """Ends the record: KILLED with the reason if the end was asked for, else FAILED."""
        ours = False
        with contextlib.suppress(ServiceError, UserError):
            ours = publishing.pull_own(self.folder)
        tracked = self.record()
        killed = interrupt_in(problem) is not None
        if killed:
            tracked.tags({"ended_by": read_reason(self.folder) or "interrupt"})
        tracked.finish("KILLED" if killed else "FAILED")
        with contextlib.suppress(ServiceError, UserError, StaleAttemptError):
            if ours:  # no other start has taken over
                publishing.publish(self.folder)
