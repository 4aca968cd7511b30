"""The job service's typed Python client, which the command line uses.

with JobClient("http://127.0.0.1:8300") as client:
    job = client.submit("train", ["model=transformer_base"], priority="high")
    for change in client.events(job["id"]): ...
"""

import base64
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from typing_extensions import TypedDict

from dragoman.model.errors import ServiceError
from dragoman.services.jobs.client.connection import LARGEST, RETRY_TIMEOUT, Connection
from dragoman.services.jobs.views import Job, JobFilters, JobHistory


class Options(TypedDict, total=False):
    """The options of a submission, as the REST interface has them."""

    priority: str
    owner: str | None  # None: who asks; or a team of theirs
    after: Sequence[str]  # jobs that must have succeeded: ids or names
    tags: Sequence[str]
    retries: int
    max_hours: float | None
    key: str | None  # the same key gives the same job


class Detail(JobHistory):
    """A job with its history."""

    attempts: list[dict[str, Any]]
    changes: list[dict[str, Any]]


class JobClient(Connection):
    """Jobs at `address`; `call` asks the rest of the service. Errors are those of `Connection`."""

    def submit(self, verb: str, overrides: Sequence[str] = (), **options: Unpack[Options]) -> Job:
        """Submits a job. A lost connection makes no second job, and neither does the same `key` again."""
        key = options.pop("key", None) or secrets.token_hex(16)
        body = {"verb": verb, "overrides": list(overrides), "key": key, **options}
        deadline = time.monotonic() + RETRY_TIMEOUT
        while True:
            try:
                job: Job = self.call("submit", body)
                return job
            except ServiceError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def planned(self, name: str, timeout: float = 180.0) -> Detail:
        """Returns the job once its plan is made, or refused."""
        deadline, pause = time.monotonic() + timeout, 0.1
        while (job := self.job(name))["state"] in ("submitted", "planned") and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(1.0, 1.5 * pause)
        return job

    def jobs(self, cursor: int | None = None, limit: int = 50, **filters: Unpack[JobFilters]) -> dict[str, Any]:
        """Returns a page: `jobs`, newest first, `next` as the cursor, `counts`, `newest` to follow changes from."""
        page: dict[str, Any] = self.call("jobs", query={"limit": limit, "cursor": cursor, **filters})
        return page

    def every_job(self, most: int | None = None, **filters: Unpack[JobFilters]) -> Iterator[Job]:
        """Yields the wanted jobs, at most `most`, page by page."""
        cursor = None
        while most is None or most > 0:
            page = self.jobs(cursor, LARGEST if most is None else min(most, LARGEST), **filters)
            yield from page["jobs"]
            most, cursor = None if most is None else most - len(page["jobs"]), page["next"]
            if cursor is None:
                return

    def job(self, name: str) -> Detail:
        job: Detail = self.call("job", id=name)
        return job

    def log(self, name: str) -> Iterator[bytes]:
        """Yields the output of its newest attempt so far."""
        offset = 0
        while block := (answer := self.ask("log", query={"offset": offset}, id=name)).content:
            yield block
            offset = int(answer.headers["X-Next-Offset"])

    def follow(self, name: str) -> Iterator[bytes]:
        """Yields the output from its newest attempt on, as it comes, until the job ends; resumes broken connections."""
        attempt = self.job(name)["attempt"]
        for event in self.stream("log-events", {"attempt": attempt}, id=name):
            yield base64.b64decode(event["text"])

    def events(self, name: str | None = None, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yields changes as they happen; with a name, those of one job until it ends."""
        yield from self.stream("events", {"after": after, "job": name})
