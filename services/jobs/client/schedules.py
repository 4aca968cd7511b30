"""The commands for schedules: a job that is submitted again and again."""

from collections.abc import Sequence

from dragoman.conf import compose, showing
from dragoman.model.errors import UserError
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig


def add(config: JobsConfig, service: JobClient, verb: str, overrides: Sequence[str]) -> int:
    """Enters a schedule and prints its id.

    Raises:
        UserError: a setting that fits one job only, or the service refuses.
    """
    if config.after or config.by or config.plan == "only":
        raise UserError("jobs.every: jobs.after, jobs.by and jobs.plan=only are for a single job")
    found = service.schedule(
        str(config.every),
        verb,
        overrides,
        priority=config.priority,
        project=config.project or "",
        tags=list(config.tags),
        notify=list(config.notify),
        retries=config.retries,
        max_hours=config.max_hours or None,
    )
    showing.show([found], lambda: str(found["id"]))
    return compose.OK


def schedules(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the schedules; `rm ID`, `pause ID` and `resume ID` change one first."""
    match list(words):
        case []:
            pass
        case ["rm", number]:
            service.remove_schedule(number)
        case ["pause" | "resume" as action, number]:
            service.set_schedule(number, action == "resume")
        case _:
            raise UserError("say dragoman schedules, schedules rm ID, schedules pause ID, or schedules resume ID")
    found = service.schedules()
    rows: list[Sequence[object]] = [("ID", "OWNER", "EVERY (UTC)", "COMMAND", "NEXT", "LAST JOB", "")]
    rows += [
        (
            *(one["id"], table.whose(one), one["every"], " ".join([one["verb"], *one["words"]])),
            *(table.clock(one["due"]) if one["due"] else "paused", one["job"] or "", one["trouble"]),
        )
        for one in found
    ]
    showing.show(found, lambda: table.table(rows))
    return compose.OK
