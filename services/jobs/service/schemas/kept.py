"""The REST interface on schedules and presets."""

from pydantic import BaseModel

from dragoman.services.jobs.ledger.tables import Saved, Schedule
from dragoman.services.jobs.service.schemas.words import View
from dragoman.services.jobs.states import Priority


class ScheduleView(View):
    """A schedule: its command, the next time, and what the last one brought."""

    id: int
    owner: str
    project: str
    every: str
    verb: str
    words: list[str]
    priority: Priority
    tags: list[str]
    created: float
    due: float | None  # null: paused
    job: str | None
    trouble: str

    @classmethod
    def of(cls, schedule: Schedule) -> "ScheduleView":
        names = cls.model_fields.keys() - {"priority", "tags", "project"}
        options = {name: schedule.options[name] for name in ("priority", "tags")}
        options["project"] = schedule.options.get("project") or ""  # rows from before have none
        return cls(**{name: getattr(schedule, name) for name in names}, **options)


class PresetView(BaseModel):
    """A kept command."""

    name: str
    verb: str
    words: list[str]
    changed: float

    @classmethod
    def of(cls, one: Saved) -> "PresetView":
        return cls(name=one.name, changed=one.changed, **one.content)
