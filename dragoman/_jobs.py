"""Jobs of the job service."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dragoman._errors import DragomanError, one_exception
from dragoman._settings import Path, configure, words_of

if TYPE_CHECKING:
    from dragoman.services.jobs.client.client import JobClient
    from dragoman.services.jobs.settings import Root


def submit(verb: str, *overrides: str, config: Path | None = None, **settings: Any) -> "Job":
    """Queues a command as a job of the job service and returns it once it is planned; like `dragoman submit`.

    `jobs.service` names the service; by default this machine's (`dragoman up`) is asked. `jobs.priority`, `jobs.after`
    and the other keys of that section work as on the command line.

    Raises:
        DragomanError: no service answers, or it refuses the job.
    """
    with one_exception():
        from dragoman.services.jobs.client import entries
        from dragoman.services.jobs.client.verbs import enter
        from dragoman.services.jobs.options import is_option
        from dragoman.services.jobs.settings import Root

        words = words_of(overrides, config, settings)
        root = configure(Root, [word for word in words if entries.OURS.match(word)])
        with _client(root) as service:
            job = enter(root.jobs, service, verb, [word for word in words if not is_option(word)])
        return Job.of(job, root)


@dataclass(frozen=True)
class Job:
    """A job in its last known state."""

    name: str
    verb: str
    state: str  # queued, running, succeeded, failed, stopped ...
    reason: str  # the reason for this state
    _root: "Root" = field(repr=False, compare=False)

    @classmethod
    def of(cls, record: Mapping[str, Any], root: "Root") -> "Job":
        """Private: made from the service's record."""
        return cls(record["id"], record["verb"], record["state"], record["reason"], root)

    @property
    def ended(self) -> bool:
        """Returns True if the job has ended for good."""
        from dragoman.services.jobs.states import ENDED

        return self.state in ENDED

    def refresh(self) -> "Job":
        """Returns the job's present state.

        Raises:
            DragomanError: the service does not answer, or has deleted it.
        """
        with one_exception(), _client(self._root) as service:
            return Job.of(service.job(self.name), self._root)

    def wait(self, timeout: float | None = None, every: float = 1.0) -> "Job":
        """Waits until the job has ended and returns it; asks `every` so many seconds.

        Raises:
            DragomanError: it has not ended after `timeout` seconds; as `refresh`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (job := self.refresh()).ended:
            if deadline is not None and time.monotonic() >= deadline:
                raise DragomanError(f"{job.name} is {job.state} after {timeout:g} seconds", mistake=False)
            time.sleep(every)
        return job

    def stop(self) -> "Job":
        """Asks the job to stop; returns its present state. Raises as `refresh`."""
        with one_exception(), _client(self._root) as service:
            service.call("stop", id=self.name)
            return Job.of(service.job(self.name), self._root)

    def log(self) -> str:
        """Returns the output of its newest attempt. Raises as `refresh`."""
        with one_exception(), _client(self._root) as service:
            return b"".join(service.log(self.name)).decode("utf-8", "replace")


@contextlib.contextmanager
def _client(root: "Root") -> Iterator["JobClient"]:
    from dragoman.services.jobs.client.entries import connect

    with connect(root) as service:
        yield service
