"""The sections that `dragoman up` reads."""

from dataclasses import dataclass
from typing import Any

from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.settings import ServiceConfig


@dataclass
class UpRoot:
    """The sections that the command reads."""

    service: ServiceConfig
    jobs: JobsConfig
    serve: dict[str, Any]
    paths: dict[str, Any]
