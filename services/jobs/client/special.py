"""Submissions of a special kind: arrays, schedules, presets, and jobs that are submitted again with changes."""

import logging
from collections.abc import Sequence

from dragoman.conf import compose, showing
from dragoman.conf.again import key_of
from dragoman.conf.options import combinations
from dragoman.model.errors import UserError, unknown
from dragoman.model.plural import plural
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.client import JobClient, Options
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.options import MOST_RUNS, merge_words
from dragoman.services.jobs.states import PRIORITY_NAMES

ARRAY = "--array"
logger = logging.getLogger(__name__)


def options(config: JobsConfig, service: JobClient) -> Options:
    """Returns how a job is queued, as the client takes it; `jobs.after` names jobs, or runs: of several the newest."""
    return {
        "priority": config.priority,
        "project": config.project,
        "after": [_job_of(service, name) for name in config.after],
        "tags": list(config.tags),
        "notify": list(config.notify),
        "retries": config.retries,
        "max_hours": config.max_hours or None,
        "by": table.moment(config.by) if config.by else None,
    }


def _job_of(service: JobClient, name: str) -> str:
    """Returns the id of the job that an id, or the name of its run, means."""
    try:
        return str(service.job(name)["id"])
    except UserError:
        jobs = service.jobs(limit=1, name=name)["jobs"]
        if not jobs:
            raise UserError(f"jobs.after={name}: there is no such job: give an id, or the name of a run") from None
        return str(jobs[0]["id"])


def submit_array(config: JobsConfig, service: JobClient, verb: str, overrides: Sequence[str]) -> int:
    """Submits the jobs and prints their ids."""
    if config.every is not None or config.plan == "only":
        raise UserError(f"{ARRAY}: --every and jobs.plan=only are for a single job")
    lines = combinations(overrides)
    if len(lines) < 2:
        raise UserError(f"{ARRAY}: give a key some values, as in dragoman submit_array {ARRAY} {verb} seed=1,2,3")
    if len(lines) > MOST_RUNS:
        raise UserError(f"{ARRAY}: {len(lines):,} combinations; at most {MOST_RUNS} are submitted at once")
    common = [word for word in lines[0] if all(word in line for line in lines)]
    runs = [[word for word in line if word not in common] for line in lines]
    jobs = service.submit_array(verb, common, runs, **options(config, service))
    tag = jobs[0]["tags"][-1]
    showing.show(jobs, lambda: "\n".join(job["id"] for job in jobs))
    logger.info("%s: dragoman jobs tag=%s    dragoman stop tag=%s", plural(len(jobs), "job"), tag, tag)
    return compose.OK


def add_schedule(config: JobsConfig, service: JobClient, verb: str, overrides: Sequence[str]) -> int:
    """Enters a schedule and prints its id."""
    if config.after or config.by or config.plan == "only":
        raise UserError("jobs.every: jobs.after, jobs.by and jobs.plan=only are for a single job")
    how = options(config, service)
    del how["after"], how["by"]
    schedule = service.schedule(str(config.every), verb, overrides, **how)
    showing.show([schedule], lambda: str(schedule["id"]))
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
    columns: dict[str, table.Column] = {
        "ID": "id",
        "OWNER": table.whose,
        "EVERY (UTC)": "every",
        "COMMAND": table.command,
        "NEXT": lambda row: table.clock(row["due"]) if row["due"] else "paused",
        "LAST JOB": lambda row: row["job"] or "",
        "": "trouble",
    }
    return table.show(service.schedules(), columns)


FROM, SAVE = "--from", "--save"


def take(option: str, words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Returns the name after `option`, None if it is not there, and the other words."""
    if option not in words:
        return None, list(words)
    at = words.index(option)
    if at + 1 == len(words) or words[at + 1].startswith("-") or "=" in words[at + 1]:
        raise UserError(f"{option}: say the name: dragoman submit {option} NAME")
    return words[at + 1], [*words[:at], *words[at + 2 :]]


def submission(service: JobClient, name: str, words: Sequence[str]) -> list[str]:
    """Returns the verb and the words of a preset, or of a job with that id, changed by `words`."""
    presets = {preset["name"]: preset for preset in service.presets()}
    if name in presets:
        verb, first = presets[name]["verb"], presets[name]["words"]
    else:
        try:
            job = service.job(name)
        except UserError:
            raise unknown(f"{FROM}: preset or job", name, presets) from None
        verb = job["verb"]
        first = [word for word in job["words"] if verb != "train" or key_of(word) != "name"]  # it would go on with it
        if verb == "train" and not any(key_of(word) == "name" for word in words):
            raise UserError(f"{FROM} {name}: add name=NEW, or this training would go on with the run of {name}")
        first += [f"jobs.priority={PRIORITY_NAMES.get(job['priority'], 'normal')}", f"jobs.retries={job['retries']}"]
        tags = [tag for tag in job["tags"] if not tag.startswith("array-")]  # it is none of that array
        first += [f"jobs.tags=[{','.join(tags)}]"] if tags else []
        first += [f"jobs.project={job['project']}"]
        first += [f"jobs.max_hours={job['max_seconds'] / 3600:g}"] if job["max_seconds"] else []
    for word in words:
        if "=" not in word and not word.startswith(("-", "~")) and word != verb:
            raise UserError(f"{word}: {name} is a submission of {verb}; give settings that change it, KEY=VALUE")
    return [verb, *merge_words(first, [word for word in words if word != verb])]


def save(service: JobClient, name: str, verb: str, words: Sequence[str]) -> int:
    """Keeps a submission and prints its name; queues nothing."""
    preset = service.keep_preset(name, verb, words)
    showing.show([preset], lambda: name)
    return compose.OK


def presets(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the presets; `rm NAME` removes one first."""
    match list(words):
        case []:
            pass
        case ["rm", name]:
            service.remove_preset(name)
        case _:
            raise UserError("say dragoman presets, or dragoman presets rm NAME")
    return table.show(service.presets(), {"NAME": "name", "COMMAND": table.command, "SINCE": table.at("changed")})
