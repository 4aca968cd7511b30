"""The section `line`: where the steps run."""

from dataclasses import dataclass
from typing import Literal

from dragoman.services.jobs.client.settings import Root


@dataclass
class LineConfig:
    """Where a line's steps run, and what else is done with them."""

    where: Literal["auto", "here", "service"] = "auto"  # auto: as jobs of the service that runs here, else one by one
    plan: bool = False  # show the steps and what is up to date; run nothing


@dataclass
class LineRoot(Root):
    """The sections that a line reads; all others are its steps'."""

    line: LineConfig
