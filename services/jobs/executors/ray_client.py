"""Connects to a Ray cluster's job server, and explains failures."""

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from model.errors import ServiceError, UserError
from model.ranges import Amount, Count, Positive, Whole

AGENT_PORT = 52365  # where `ray start` lets a node's agent listen; a head without an agent accepts no jobs


@dataclass
class JobsConfig:
    """The job service or the cluster, how to reach it, and what is sent with a job."""

    service: str | None = None  # http://host:8300; null: the one that `dragoman up` runs here
    key_file: str | None = None  # a file with the service's token
    owner: str | None = None  # null: this user; counts where the service requires no token
    priority: Literal["low", "normal", "high"] = "normal"
    after: list[str] = field(default_factory=list)  # jobs that must succeed before
    retries: Whole = 0  # failures after which the job is retried
    max_hours: Amount = 0.0  # of running; 0: unlimited
    by: str | None = None  # 08:00, or 2030-01-31T08:00: the deadline
    plan: Literal["first", "only"] = "first"  # only: print the plan and queue nothing
    address: str | None = None  # http://host:8265, or host:port, ray://..., auto
    auth: Literal["token", "disabled"] = "token"
    token_file: str | None = None
    python: str = "python"
    working_dir: str | None = None
    exclude: list[str] = field(  # left out of working_dir
        default_factory=lambda: [".git", ".venv*", "artifacts", "mlruns", "outputs", "**/__pycache__"]
    )
    environment: dict[str, str] = field(default_factory=dict)
    name: str = "job"
    show: Count = 20
    stop_timeout: Amount = 30.0  # seconds
    workers: Count = 1
    cpus_per_worker: Positive = 1.0
    gpus_per_worker: Amount = 1.0
    device: Literal["auto", "cpu", "cuda"] = "auto"


@contextlib.contextmanager
def talking(config: JobsConfig) -> Iterator[Any]:
    """Yields `connect`'s client for a conversation with the cluster.

    Raises:
        ServiceError: the head went away during it, or could not do what was asked.
    """
    import aiohttp

    client = connect(config)
    try:
        yield client
    except BrokenPipeError:
        raise  # the reader of our output has gone away, not the head
    except (aiohttp.ClientError, OSError, RuntimeError) as problem:
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[0][:300]
        if "No available agent" in reason:
            raise ServiceError(
                f"the cluster at {config.address} accepts no jobs: no agent of its nodes answers. A head that has just "
                f"started may need a moment. Where another Ray holds port {AGENT_PORT} on the head's machine (dragoman "
                f"doctor, run there, looks), start the head with --dashboard-agent-listen-port=0"
            ) from None
        raise ServiceError(
            f"the head at {config.address} has gone or failed ({reason}). Jobs go on as long as the cluster lives: "
            f"dragoman jobs lists them once it answers again"
        ) from None


def connect(config: JobsConfig) -> Any:
    """Returns Ray's client of the cluster's job server. The token is neither shown nor logged.

    Raises:
        UserError: there is no address, nothing answers there, or the token is missing or wrong.
    """
    if not config.address or config.address == "local":
        raise UserError(
            "jobs.address: no cluster is named. Give the head's dashboard, jobs.address=http://HOST:8265, "
            "or cluster=ray for the one that RAY_ADDRESS names"
        )
    os.environ["RAY_AUTH_MODE"] = config.auth
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    headers = _headers(config)
    if config.address.startswith(("http://", "https://")):
        os.environ["RAY_API_SERVER_ADDRESS"] = config.address  # otherwise RAY_ADDRESS would win silently
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    for name in ("ray", "ray.dashboard.modules.job.sdk"):  # the second has its own level
        logging.getLogger(name).setLevel(logging.WARNING)

    try:
        return JobSubmissionClient(config.address, headers=headers)
    except AuthenticationError as problem:
        reason = str(problem).strip().splitlines()[0]
        raise UserError(
            f"jobs.auth={config.auth}: the cluster at {config.address} refuses us ({reason}). Its token is expected in "
            f"the variable RAY_AUTH_TOKEN or in the file jobs.token_file={config.token_file}"
        ) from None
    except (ConnectionError, RuntimeError, ValueError) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise UserError(f"jobs.address: no Ray job server answers at {config.address!r} ({reason})") from None


def nodes(config: JobsConfig, client: Any) -> list[Any]:
    """Returns Ray's records of the cluster's nodes.

    Raises:
        ServiceError: the cluster does not tell.
    """
    from ray.util.state import StateApiClient
    from ray.util.state.common import ListApiOptions, StateResource
    from ray.util.state.exception import RayStateApiException

    headers = {"Content-Type": "application/json", **(_headers(config) or {})}
    asked = StateApiClient(client.get_address(), headers=headers)
    try:
        return list(asked.list(StateResource.NODES, ListApiOptions(limit=10_000), raise_on_missing_output=True))
    except RayStateApiException as problem:
        raise ServiceError(f"the cluster at {config.address} does not say what it has ({problem})") from None


def _headers(config: JobsConfig) -> dict[str, str] | None:
    """Returns the header with the cluster's token: Ray reads its variables only once, when it is imported."""
    return {"Authorization": f"Bearer {_read_token(config)}"} if config.auth == "token" else None


def _read_token(config: JobsConfig) -> str:
    """Returns the token from the place that Ray itself looks at first: the variable, the named file, Ray's own file.

    Raises:
        UserError: there is none.
    """
    if config.token_file is not None:
        if not Path(config.token_file).is_file():
            raise UserError(f"jobs.token_file: {config.token_file} is not a file")
        os.environ["RAY_AUTH_TOKEN_PATH"] = config.token_file  # for an address that Ray has to look up first
    if token := os.environ.get("RAY_AUTH_TOKEN"):
        return token.strip()
    file = Path(config.token_file) if config.token_file is not None else Path.home() / ".ray" / "auth_token"
    if not file.is_file():
        raise UserError(
            "jobs.auth=token: there is no token. Put it into the variable RAY_AUTH_TOKEN or into a file named by "
            "jobs.token_file (jobs.auth=disabled is for clusters that ask for none)"
        )
    return file.read_text(encoding="utf-8").strip()


def details(client: Any, job: str) -> Any:
    """Returns Ray's record of the job.

    Raises:
        UserError: the cluster knows no such job; the closest name is suggested.
    """
    try:
        return client.get_job_info(job)
    except RuntimeError as problem:
        if "404" not in str(problem):
            raise
        names = [found.submission_id for found in client.list_jobs() if found.submission_id]
        near = get_close_matches(job, names, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else " dragoman jobs lists them"
        raise UserError(f"job {job!r} is not known to the cluster.{hint}") from None
