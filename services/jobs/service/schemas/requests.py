"""The requests that hand in commands: plans, jobs, arrays, presets, schedules, and what changes a job."""

from typing import Annotated

from pydantic import Field

from dragoman.services.jobs.options import MOST_RUNS
from dragoman.services.jobs.planning.refusals import LONGEST, MOST_WORDS
from dragoman.services.jobs.service.schemas.words import NAME, JobId, ProjectOrNone, Strict, Tag
from dragoman.services.jobs.states import Priority


class Command(Strict):
    """A command and its overrides, and nothing else that could run."""

    verb: Annotated[str, Field(max_length=32)]
    overrides: Annotated[list[Annotated[str, Field(max_length=LONGEST)]], Field(max_length=MOST_WORDS)] = []


class PlanRequest(Command):
    """A command to be planned."""

    project: ProjectOrNone = ""
    by: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] | None = None  # seconds since 1970


class Options(Strict):
    """The options of jobs that are submitted once or by a schedule."""

    priority: Priority = "normal"
    project: ProjectOrNone = ""
    tags: Annotated[list[Tag], Field(max_length=20)] = []
    notify: Annotated[list[Annotated[str, Field(min_length=1, max_length=500)]], Field(max_length=10)] = []
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    max_hours: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] | None = None


class Submission(PlanRequest, Options):
    """A command with its place in the queue."""

    after: Annotated[list[JobId], Field(max_length=100)] = []
    key: Annotated[str, Field(max_length=64, pattern=NAME)] | None = None  # the same key gives the same job


class ArrayRequest(Submission):
    """A command that is submitted several times, each with some overrides more."""

    runs: Annotated[
        list[Annotated[list[Annotated[str, Field(max_length=LONGEST)]], Field(min_length=1, max_length=20)]],
        Field(min_length=1, max_length=MOST_RUNS),
    ]


class PresetRequest(Strict):
    """A command to be kept: its overrides, and options such as jobs.priority=high."""

    verb: Annotated[str, Field(max_length=32)]
    words: Annotated[list[Annotated[str, Field(max_length=LONGEST)]], Field(max_length=MOST_WORDS)] = []


class ScheduleRequest(Command, Options):
    """A command that is submitted at the times of a cron expression, in UTC; @time in its words is that time."""

    every: Annotated[str, Field(max_length=100)]


class PriorityRequest(Strict):
    """A new priority."""

    priority: Priority


class AfterRequest(Strict):
    """The jobs that a job comes after."""

    after: Annotated[list[JobId], Field(max_length=100)]
