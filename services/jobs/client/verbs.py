"""The commands that talk to the job service: each asks, prints, and returns an exit code."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dragoman.conf import compose, showing
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import read_secret
from dragoman.model.plural import plural
from dragoman.services.jobs.client import admin, table
from dragoman.services.jobs.client.client import Detail, JobClient, Options
from dragoman.services.jobs.client.connection import LARGEST
from dragoman.services.jobs.options import this_user
from dragoman.services.jobs.settings import JobsConfig
from dragoman.services.jobs.states import ENDED, PRIORITIES, PRIORITY_NAMES
from dragoman.services.jobs.views import Job, read_filters

logger = logging.getLogger(__name__)
FOLLOW = ("-f", "--follow")
Verb = Callable[[JobsConfig, JobClient, Sequence[str]], int]


def client(config: JobsConfig, address: str) -> JobClient:
    """Returns the client of the service at `address`."""
    token = None if config.key_file is None else read_secret("jobs.key_file", config.key_file)
    return JobClient(address, token, config.owner or this_user())


def submit(config: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Plans and queues a job, and prints its id."""
    verb, *overrides = submitted(words)
    if config.plan == "only":
        found_plan = service.call("plan", {"verb": verb, "overrides": list(overrides), "owner": config.owner})
        showing.show([found_plan], lambda: table.plan(found_plan))
        return compose.OK
    entered = enter(config, service, verb, overrides)
    job = entered["id"]
    if entered["plan"]:
        logger.info("%s", table.plan(entered["plan"]))
    showing.show([entered], lambda: job)
    logger.info("follow it: dragoman logs %s -f    why it waits: dragoman why %s", job, job)
    return compose.OK


def submitted(words: Sequence[str]) -> Sequence[str]:
    """Returns the submitted command line, which begins with its verb."""
    at = next((at for at, word in enumerate(words) if "=" not in word and not word.startswith(("-", "~"))), None)
    if at is None:
        raise UserError("say which verb: dragoman submit VERB [key=value ...], for example dragoman submit train")
    return [words[at], *words[:at], *words[at + 1 :]]


def enter(config: JobsConfig, service: JobClient, verb: str, overrides: Sequence[str]) -> Detail:
    """Plans and queues a job as the section says, and returns it."""
    job = service.submit(verb, overrides, **options(config))
    plan = service.planned(job["id"])
    if plan["state"] == "failed" and not plan["attempts"]:
        service.call("remove", id=job["id"])
        raise UserError(plan["reason"])
    return plan


def options(config: JobsConfig) -> Options:
    """Returns how a job is queued, as the client takes it."""
    return {
        "priority": config.priority,
        "owner": config.owner,
        "after": list(config.after),
        "tags": list(config.tags),
        "retries": config.retries,
        "max_hours": config.max_hours or None,
        "key": config.key,
    }


def jobs(config: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Prints the wanted jobs; with -f until Ctrl-C, again after each change. As JSON only changed jobs come again."""
    follow, jobs_shown = _flag(words), dict[str, Job]()
    filters = read_filters([word for word in words if word not in FOLLOW])
    while True:
        first = service.jobs(limit=min(LARGEST, config.show), **filters)
        newest = first["jobs"]
        if len(newest) < config.show and first["next"]:
            newest = list(service.every_job(config.show, **filters))
        if follow and sys.stdout.isatty() and not showing.wants_json():
            print("\x1b[H\x1b[2J", end="")
        fresh = [row for row in newest if jobs_shown.get(row["id"]) != row]
        showing.show(fresh, partial(table.jobs, newest, first["counts"], time.time()))
        if not follow:
            return compose.OK
        jobs_shown |= {row["id"]: row for row in fresh}
        next(iter(service.events(after=first["newest"])))
        time.sleep(0.5)


def job(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    name = _name("job", words)
    detail = service.job(name)
    showing.show([detail], lambda: table.detail(detail))
    return compose.OK


def why(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    name = _name("why", words)
    reasons = service.call("why", id=name)
    showing.show([{"id": name, **reasons}], lambda: table.why(reasons))
    return compose.OK


def logs(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Prints the log; with -f until the job ends, with exit code 1 unless it succeeded."""
    name = _name("logs", words)
    for block in service.follow(name) if _flag(words) else service.log(name):
        sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()
    if not _flag(words):
        return compose.OK
    ended = service.job(name)
    logger.info("%s: %s. %s", name, ended["state"], ended["reason"])
    return compose.OK if ended["state"] == "succeeded" else compose.FAILED


def stop(config: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Stops jobs and waits until they have ended; of those that filters choose, the ones that have not ended."""
    chosen = _chosen("stop", service, words, ended=False)
    if chosen is None:
        return compose.OK
    stopping = [row for row in chosen if row["state"] in ENDED or _try(partial(service.call, "stop", id=row["id"]))]
    deadline, done = time.monotonic() + config.stop_timeout, len(stopping) == len(chosen)
    for row in stopping:
        while (job_now := service.job(row["id"]))["state"] not in ENDED and time.monotonic() < deadline:
            time.sleep(0.2)
        _show_state(job_now)
        done = done and job_now["state"] in ENDED
    return compose.OK if done else compose.FAILED


def act(verb: str, _: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Runs the command `yield` or `retry`."""
    _show_state(service.call(verb, id=_name(verb, words)))
    return compose.OK


def priority(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Sets the priority: JOB low|normal|high."""
    plain = _plain(words)
    if len(plain) != 2:
        raise UserError("say which job and which priority: dragoman priority JOB high")
    if plain[1] not in PRIORITIES:
        raise unknown("priority", plain[1], PRIORITIES)
    changed = service.call("priority", {"priority": plain[1]}, id=plain[0])
    showing.show([changed], lambda: f"{changed['id']}: {PRIORITY_NAMES[changed['priority']]}")
    return compose.OK


def remove(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Deletes ended jobs; of those that filters choose, the ones that have ended."""
    chosen = _chosen("rm", service, words, ended=True)
    if chosen is None:
        return compose.OK
    removed = [row["id"] for row in chosen if _try(partial(_remove, service, row["id"]))]
    return compose.OK if len(removed) == len(chosen) else compose.FAILED


def _remove(service: JobClient, name: str) -> None:
    service.call("remove", id=name)
    showing.show([{"id": name, "state": "removed"}], lambda: f"{name}: removed")


VERBS: dict[str, Verb] = {
    "submit": submit,
    "jobs": jobs,
    "job": job,
    "why": why,
    "logs": logs,
    "stop": stop,
    "yield": partial(act, "yield"),
    "retry": partial(act, "retry"),
    "priority": priority,
    "rm": remove,
    "quota": admin.quota,
    "token": admin.token,
}


def _try(act: Callable[[], object]) -> bool:
    """Returns False if the service refuses, and says why: one job does not keep the others from their turn."""
    try:
        act()
    except UserError as problem:
        logger.warning("%s", problem)
        return False
    return True


def _show_state(job_changed: Job) -> None:
    showing.show([job_changed], lambda: f"{job_changed['id']}: {job_changed['state']}")


def _chosen(verb: str, service: JobClient, words: Sequence[str], ended: bool) -> list[dict[str, Any]] | None:
    """Returns the jobs to act on, of those that filters choose the (not) `ended` ones; shows them and returns None if
    nothing is to be changed."""
    chosen = _select(verb, service, words)
    if any("=" in word for word in words):
        chosen = [row for row in chosen if (row["state"] in ENDED) == ended]
    if _confirm(verb, chosen, words):
        return chosen
    showing.show(chosen, lambda: table.table(table.job_rows(chosen, time.time())))
    logger.info("%s: nothing was changed", verb)
    return None


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if "=" not in word and not word.startswith("-")]


def _name(verb: str, words: Sequence[str]) -> str:
    plain = _plain(words)
    if len(plain) != 1:
        raise UserError(f"say which job: dragoman {verb} JOB (dragoman jobs lists them)")
    return plain[0]


def _flag(words: Sequence[str]) -> bool:
    return any(word in FOLLOW for word in words)


DRY_RUN, YES = "--dry-run", "--yes"


def _select(verb: str, service: JobClient, words: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the records of the jobs that are named, or that fit the filters."""
    words = [word for word in words if word not in (DRY_RUN, YES)]
    names, filters = [word for word in words if "=" not in word], [word for word in words if "=" in word]
    if option := next((word for word in names if word.startswith("-")), None):
        raise UserError(f"{option}: no such option; there are {DRY_RUN} and {YES}")
    if names and filters:
        raise UserError(f"{names[0]} {filters[0]}: give ids or filters, not both")
    if not words:
        raise UserError(
            f"say which job: dragoman {verb} JOB ... (dragoman jobs lists them), or state=waiting name=NAME*"
        )
    if names:
        return [dict(service.job(name)) for name in dict.fromkeys(names)]
    return [dict(job) for job in service.every_job(**read_filters(filters))]


def _confirm(verb: str, jobs: Sequence[dict[str, Any]], words: Sequence[str]) -> bool:
    """Returns True if the command may act on these jobs: those that filters chose are asked about first."""
    if not jobs:
        print(f"{verb}: no job fits", file=sys.stderr)
        return True
    if DRY_RUN in words:
        return False
    if YES in words or not any("=" in word for word in words):
        return True
    if not sys.stdin.isatty():
        raise UserError(
            f"{plural(len(jobs), 'job')}: there is no terminal to ask at; add {YES}, or {DRY_RUN} to see which"
        )
    for job in jobs:
        print(f"{job['id']}  {job['state']}  {job['owner']}  {job['run'] or job['verb']}", file=sys.stderr)
    return input(f"{verb} {plural(len(jobs), 'job')}? [y/N] ").strip().lower() in ("y", "yes")
