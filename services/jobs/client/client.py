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
from dragoman.services.jobs.client.connection import RETRY_TIMEOUT, Connection, path_part
from dragoman.services.jobs.views import Job, JobFilters, JobHistory


class Administration(Connection):
    """Requests about people; errors are those of `Connection`."""

    def me(self) -> dict[str, Any]:
        """Returns who asks: owner, role and teams."""
        return self._json("GET", "/v1/me")

    def quotas(self) -> list[dict[str, Any]]:
        return self._rows("/v1/quotas")

    def set_quota(
        self, owner: str, cpus: float | None = None, gpus: float | None = None, jobs: int | None = None
    ) -> None:
        """Sets an owner's quota; None: no limit."""
        self._ask("PUT", f"/v1/quotas/{path_part(owner)}", json={"cpus": cpus, "gpus": gpus, "jobs": jobs})

    def tokens(self) -> list[dict[str, Any]]:
        """Returns the tokens' records; the tokens themselves are not stored."""
        return self._rows("/v1/tokens")

    def issue(self, name: str, owner: str, role: str, ends: str | None = None) -> str:
        """Issues a token and returns it; it is shown only once. `ends`: 90d or a date; None: never."""
        body = {"name": name, "owner": owner, "role": role, "ends": ends}
        return str(self._json("POST", "/v1/tokens", json=body)["token"])

    def rotate(self, name: str) -> str:
        """Replaces a token and returns the new one; it is shown only once."""
        return str(self._json("POST", f"/v1/tokens/{path_part(name)}/rotate", json={})["token"])

    def revoke(self, name: str) -> None:
        """Makes a token invalid."""
        self._ask("DELETE", f"/v1/tokens/{path_part(name)}")


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


class JobClient(Administration):
    """Jobs and the rest of the service at `address`; errors are those of `Connection`."""

    def status(self) -> dict[str, Any]:
        """Returns whether the service works, and on what."""
        return self._json("GET", "/status")

    def plan(self, verb: str, overrides: Sequence[str], owner: str | None = None) -> dict[str, Any]:
        """Returns the plan of a submission; queues nothing."""
        body = {"verb": verb, "overrides": list(overrides), "owner": owner}
        return self._json("POST", "/v1/plans", json=body, timeout=180)

    def submit(self, verb: str, overrides: Sequence[str] = (), **options: Unpack[Options]) -> Job:
        """Submits a job. A lost connection makes no second job, and neither does the same `key` again."""
        key = options.pop("key", None) or secrets.token_hex(16)
        body = {"verb": verb, "overrides": list(overrides), "key": key, **options}
        deadline = time.monotonic() + RETRY_TIMEOUT
        while True:
            try:
                job: Job = self._ask("POST", "/v1/jobs", json=body).json()
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
        query = {"limit": limit, **({"cursor": cursor} if cursor else {}), **filters}
        return self._json("GET", "/v1/jobs", params=query)

    def every_job(self, most: int | None = None, **filters: Unpack[JobFilters]) -> Iterator[Job]:
        """Returns the wanted jobs, at most `most`, page by page."""
        return self._pages("/v1/jobs", "jobs", most, filters)

    def job(self, name: str) -> Detail:
        job: Detail = self._ask("GET", f"/v1/jobs/{path_part(name)}").json()
        return job

    def why(self, name: str) -> dict[str, Any]:
        """Returns what it waits for, who holds that, and when it will start."""
        return self._json("GET", f"/v1/jobs/{path_part(name)}/why")

    def curves(self, name: str) -> dict[str, Any]:
        """Returns a training's `curves`, name -> (step, value) pairs, and `released` at its end."""
        return self._json("GET", f"/v1/jobs/{path_part(name)}/curves")

    def act(self, name: str, action: str, **body: Any) -> Job:
        """Runs an action: stop, yield, retry, priority (priority="high") or after (after=[JOB])."""
        job: Job = self._ask("POST", f"/v1/jobs/{path_part(name)}/{action}", json=body).json()
        return job

    def remove(self, name: str) -> None:
        self._ask("DELETE", f"/v1/jobs/{path_part(name)}")

    def log(self, name: str) -> Iterator[bytes]:
        """Yields the output of its newest attempt so far."""
        offset, path = 0, f"/v1/jobs/{path_part(name)}/logs"
        while block := (answer := self._ask("GET", path, params={"offset": offset})).content:
            yield block
            offset = int(answer.headers["X-Next-Offset"])

    def follow(self, name: str) -> Iterator[bytes]:
        """Yields the output from its newest attempt on, as it comes, until the job ends; resumes broken connections."""
        attempt = self.job(name)["attempt"]
        for event in self._stream(f"/v1/jobs/{path_part(name)}/log-events", {"attempt": attempt}):
            yield base64.b64decode(event["text"])

    def events(self, name: str | None = None, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yields changes as they happen; with a name, those of one job until it ends."""
        yield from self._stream("/v1/events", {"after": after, **({"job": name} if name else {})})
