"""The section `jobs`: where the job service is, and what the job commands ask it for."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from dragoman.model.ranges import Amount, Count, Whole


@dataclass
class JobsConfig:
    """The job service, and the options of a submission."""

    service: str | None = None  # http://host:8300; null: the one that `dragoman up` runs here
    key_file: str | None = None  # a file with the service's token
    owner: str | None = None  # null: who asks; or a team of theirs. Believed where the service requires no token
    priority: Literal["low", "normal", "high"] = "normal"
    after: list[str] = field(default_factory=list)  # jobs that must succeed before
    tags: list[str] = field(default_factory=list)  # to find the job by
    retries: Whole = 0  # failures after which the job is retried
    max_hours: Amount = 0.0  # of running; 0: unlimited
    key: str | None = None  # the same key gives the same job: what cron repeats is queued once
    plan: Literal["first", "only"] = "first"  # only: print the plan and queue nothing
    show: Count = 20
    stop_timeout: Amount = 30.0  # seconds


@dataclass
class Root:
    """The sections that name the service."""

    FILE: ClassVar = "jobs"

    jobs: JobsConfig
    paths: dict[str, Any]
