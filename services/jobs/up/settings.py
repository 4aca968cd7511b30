"""The sections that `dragoman up` reads."""

from dataclasses import dataclass
from typing import Any, ClassVar

from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.settings import ServiceConfig


@dataclass
class UpRoot:
    """The service's own sections typed, those of the processes beside it as they are."""

    FILE: ClassVar = "up"

    service: ServiceConfig
    jobs: JobsConfig
    serve: dict[str, Any]
    paths: dict[str, Any]
