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
from dragoman.services.jobs.client.connection import PATIENCE, Connection, path_part
from dragoman.services.jobs.views import Job, JobHistory


class Administration(Connection):
    """Requests of members, maintainers and admins beside jobs; errors are those of `Connection`."""

    def bill(self, owner: str | None = None) -> list[dict[str, Any]]:
        """Returns the tokens and seconds lost, by cause, job and owner."""
        query = {"owner": owner} if owner else {}
        return self._rows("/v1/bill", params=query)

    def quotas(self) -> list[dict[str, Any]]:
        return self._rows("/v1/quotas")

    def set_quota(
        self, owner: str, cpus: float | None = None, gpus: float | None = None, jobs: int | None = None
    ) -> None:
        """Sets an owner's quota; None: no limit."""
        self._ask("PUT", f"/v1/quotas/{path_part(owner)}", json={"cpus": cpus, "gpus": gpus, "jobs": jobs})

    def projects(self) -> list[dict[str, Any]]:
        """Returns the asker's projects with members, quota and use; all for an admin."""
        return self._rows("/v1/projects")

    def one_project(self, name: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/projects/{path_part(name)}")

    def create_project(self, name: str, group: str = "") -> dict[str, Any]:
        """Makes a project; people of the proxy's `group` become members when they come."""
        return self._json("POST", "/v1/projects", json={"name": name, "group": group})

    def remove_project(self, name: str) -> None:
        """Removes a project whose jobs have ended, and that has no models."""
        self._ask("DELETE", f"/v1/projects/{path_part(name)}")

    def set_project_quota(
        self, name: str, cpus: float | None = None, gpus: float | None = None, jobs: int | None = None
    ) -> None:
        """Sets a project's quota; None: no limit."""
        self._ask("PUT", f"/v1/projects/{path_part(name)}/quota", json={"cpus": cpus, "gpus": gpus, "jobs": jobs})

    def add_member(self, project: str, owner: str, role: str = "member") -> None:
        """Makes somebody a member, or changes their role: member or maintainer."""
        self._ask("PUT", f"/v1/projects/{path_part(project)}/members/{path_part(owner)}", json={"role": role})

    def remove_member(self, project: str, owner: str) -> None:
        """Ends a membership."""
        self._ask("DELETE", f"/v1/projects/{path_part(project)}/members/{path_part(owner)}")

    def models(self) -> list[dict[str, Any]]:
        """Returns the owners of registered models' names."""
        return self._rows("/v1/models")

    def give(self, name: str, owner: str = "", project: str = "") -> None:
        """Gives a registered model, or the folder shards/NAME or runs/NAME, to an owner, or to a project."""
        whose = {"owner": owner, "project": project}
        if "/" in name:
            self._ask("PUT", "/v1/places", json={"place": name, **whose})
        else:
            self._ask("PUT", f"/v1/models/{path_part(name)}", json=whose)

    def retention(self, **rules: Any) -> dict[str, Any]:
        """Returns the jobs that `service.keep`, with `rules` in its place, would delete now."""
        return self._json("GET", "/v1/retention", params=rules)

    def every_audit_row(self, most: int | None = None, **filters: str) -> Iterator[dict[str, Any]]:
        """Returns rows of the audit, newest first, at most `most`; `filters`: person, what, status, since, until."""
        return self._pages("/v1/audit", "rows", most, filters)

    def tokens(self) -> list[dict[str, Any]]:
        """Returns all tokens' records; the tokens themselves are not stored."""
        return self._rows("/v1/tokens")

    def issue(self, name: str, owner: str, role: str) -> str:
        """Issues a token and returns it; it is shown only once."""
        return str(self._json("POST", "/v1/tokens", json={"name": name, "owner": owner, "role": role})["token"])

    def rotate(self, name: str) -> str:
        """Replaces a token and returns the new one; it is shown only once."""
        return str(self._json("POST", f"/v1/tokens/{path_part(name)}/rotate", json={})["token"])

    def revoke(self, name: str) -> None:
        """Makes a token invalid; OWNER/NAME is one that its owner made."""
        self._ask("DELETE", f"/v1/tokens/{'/'.join(map(path_part, name.split('/')))}")

    def begin_login(self) -> dict[str, Any]:
        """Asks to be let in: `code` is typed on `page`, `secret` takes the token then."""
        return self._json("POST", "/v1/login", json={})

    def finish_login(self, secret: str) -> str | None:
        """Returns the token once the code was typed; None before."""
        token = self._json("POST", "/v1/login/token", json={"secret": secret})["token"]
        return None if token is None else str(token)

    def me(self) -> dict[str, Any]:
        """Returns who asks: owner and role."""
        return self._json("GET", "/v1/me")

    def my_tokens(self) -> list[dict[str, Any]]:
        """Returns the records of the tokens that the asker made; the tokens themselves are not stored."""
        return self._rows("/v1/me/tokens")

    def make_token(self, name: str, ends: str | None = None, role: str | None = None) -> str:
        """Makes a token for the asker and returns it; it is shown only once. `ends`: 30d or a date, 90d if None."""
        body = {"name": name, "role": role, **({"ends": ends} if ends else {})}
        return str(self._json("POST", "/v1/me/tokens", json=body)["token"])

    def revoke_mine(self, name: str) -> None:
        """Makes one of the asker's own tokens invalid."""
        self._ask("DELETE", f"/v1/me/tokens/{path_part(name)}")


class JobFilters(TypedDict, total=False):
    """Filters of jobs and their order, as the REST interface has them."""

    state: Sequence[str]
    owner: str
    project: str
    verb: str
    name: str  # of the run, with * for any characters
    model: str  # the registered model, or the network
    tag: Sequence[str]  # all of them
    since: str  # submitted then or later: an age (30min, 12h, 2d, 1w) or a date
    until: str
    sort: str  # submitted, changed, name, owner, model, state, priority, spent; - before it: the largest first


class Options(TypedDict, total=False):
    """The options of a submission, as the REST interface has them."""

    priority: str
    project: str | None  # None: the client's own
    after: Sequence[str]  # jobs that must have succeeded
    tags: Sequence[str]
    notify: Sequence[str]
    retries: int
    max_hours: float | None
    by: float | None  # seconds since 1970
    key: str | None  # the same key gives the same job


FILTERS = tuple(JobFilters.__annotations__)


class Detail(JobHistory):
    """A job with its history."""

    notices: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    changes: list[dict[str, Any]]


class JobClient(Administration):
    """Jobs, presets, schedules and the rest of the service at `address`; errors are those of `Connection`."""

    def status(self) -> dict[str, Any]:
        """Returns whether the service works, and on what."""
        return self._json("GET", "/status")

    def plan(self, verb: str, overrides: Sequence[str], by: float | None = None) -> dict[str, Any]:
        """Returns the plan of a submission; queues nothing."""
        body = {"verb": verb, "overrides": list(overrides), "by": by, "project": self.project}
        return self._json("POST", "/v1/plans", json=body, timeout=180)

    def submit(self, verb: str, overrides: Sequence[str] = (), **options: Unpack[Options]) -> Job:
        """Submits a job. A lost connection makes no second job, and neither does the same `key` again."""
        body = self._submission(verb, overrides, options)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                job: Job = self._ask("POST", "/v1/jobs", json=body).json()
                return job
            except ServiceError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def submit_array(
        self, verb: str, overrides: Sequence[str], runs: Sequence[Sequence[str]], **options: Unpack[Options]
    ) -> list[Job]:
        """Submits a job for each of `runs`, overrides that are added; all get a tag of their own, `array-...`."""
        body = {**self._submission(verb, overrides, options), "runs": [list(run) for run in runs]}
        jobs: list[Job] = self._ask("POST", "/v1/arrays", json=body, timeout=600).json()
        return jobs

    def _submission(self, verb: str, overrides: Sequence[str], options: Options) -> dict[str, Any]:
        """Returns the body of a request; the project is this client's, and the key a new one, unless they are named."""
        usual = {"project": self.project, "key": secrets.token_hex(16)}
        named = {name: value for name, value in options.items() if name not in usual or value is not None}
        return {"verb": verb, "overrides": list(overrides), **usual, **named}

    def presets(self) -> list[dict[str, Any]]:
        """Returns one's own presets: name, verb, words."""
        return self._rows("/v1/presets")

    def keep_preset(self, name: str, verb: str, words: Sequence[str]) -> dict[str, Any]:
        """Keeps a submission as a preset; `words` may hold options such as jobs.priority=high."""
        return self._json("PUT", f"/v1/presets/{path_part(name)}", json={"verb": verb, "words": list(words)})

    def remove_preset(self, name: str) -> None:
        self._ask("DELETE", f"/v1/presets/{path_part(name)}")

    def schedule(
        self, every: str, verb: str, overrides: Sequence[str] = (), **options: Unpack[Options]
    ) -> dict[str, Any]:
        """Enters a schedule, a cron expression in UTC; its jobs have no `after`, `by` and `key`."""
        body = {"every": every, "verb": verb, "overrides": list(overrides), "project": self.project, **options}
        return self._json("POST", "/v1/schedules", json=body, timeout=180)

    def schedules(self) -> list[dict[str, Any]]:
        return self._rows("/v1/schedules")

    def set_schedule(self, number: str, active: bool) -> None:
        """Resumes or pauses a schedule."""
        self._ask("POST", f"/v1/schedules/{path_part(number)}/{'resume' if active else 'pause'}", json={})

    def remove_schedule(self, number: str) -> None:
        """Removes a schedule; its jobs stay."""
        self._ask("DELETE", f"/v1/schedules/{path_part(number)}")

    def planned(self, name: str, patience: float = 180.0) -> Detail:
        """Returns the job once its plan is made, or refused."""
        deadline, pause = time.monotonic() + patience, 0.1
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

    def usage(self, name: str, attempt: int = 0) -> dict[str, Any]:
        """Returns what an attempt (0: the newest) used: `machines`, each with `last`, `total` and `curves`."""
        return self._json("GET", f"/v1/jobs/{path_part(name)}/usage", params={"attempt": attempt})

    def act(self, name: str, action: str, **body: Any) -> Job:
        """Runs an action: stop, yield, retry, priority (priority="high") or after (after=[JOB])."""
        job: Job = self._ask("POST", f"/v1/jobs/{path_part(name)}/{action}", json=body).json()
        return job

    def remove(self, name: str) -> None:
        self._ask("DELETE", f"/v1/jobs/{path_part(name)}")

    def report(self, name: str) -> str:
        """Returns the job's report as one HTML page."""
        return self._ask("GET", f"/v1/jobs/{path_part(name)}/report").text

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
