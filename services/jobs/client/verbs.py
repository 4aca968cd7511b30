"""The commands that talk to the job service: each asks, prints, and returns an exit code."""

import getpass
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from conf import compose
from model.errors import UserError, unknown
from model.files import atomic_write
from services.jobs.client import admin, table
from services.jobs.client.client import Detail, JobClient
from services.jobs.client.settings import JobsConfig
from services.jobs.states import ENDED, PRIORITIES, PRIORITY_NAMES
from services.telemetry.traceparent import read_environment

logger = logging.getLogger(__name__)
Verb = Callable[[JobsConfig, JobClient, Sequence[str]], int]


def client(config: JobsConfig, address: str, owner: str | None = None) -> JobClient:
    """Returns the client of the service at `address`; `owner` counts where no token is required.

    Raises:
        UserError: jobs.key_file cannot be read.
    """
    token = None
    if config.key_file is not None:
        try:
            token = Path(config.key_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise UserError(f"jobs.key_file: {config.key_file} cannot be read ({problem})") from None
    return JobClient(address, token, owner or config.owner or getpass.getuser(), trace=read_environment())


def submit(config: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Plans and queues a job, and prints its id."""
    verb, *overrides = submitted(words)
    if config.plan == "only":
        by = table.moment(config.by) if config.by else None
        print(table.plan(service.plan(verb, overrides, by)))
        return compose.OK
    found = enter(config, service, verb, overrides)
    job = found["id"]
    if found["plan"]:
        logger.info("%s", table.plan(found["plan"]))
    print(job)
    logger.info("follow it: dragoman logs %s -f    why it waits: dragoman why %s", job, job)
    return compose.OK


def submitted(words: Sequence[str]) -> Sequence[str]:
    """Returns the submitted command line.

    Raises:
        UserError: it does not begin with a verb.
    """
    if not words or "=" in words[0] or words[0].startswith("-"):
        raise UserError("say which verb: dragoman submit VERB [key=value ...], for example dragoman submit train")
    return words


def enter(config: JobsConfig, service: JobClient, verb: str, overrides: Sequence[str]) -> Detail:
    """Plans and queues a job as the section says, and returns it.

    Raises:
        UserError: the planner refuses the job.
    """
    job = service.submit(
        verb,
        overrides,
        priority=config.priority,
        after=config.after,
        retries=config.retries,
        max_hours=config.max_hours or None,
        by=table.moment(config.by) if config.by else None,
    )
    found = service.planned(job["id"])
    if found["state"] == "failed" and not found["attempts"]:
        service.remove(job["id"])
        raise UserError(found["reason"])
    return found


def jobs(config: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Prints the table of jobs; with -f it is updated until Ctrl-C."""
    follow = _flag(words)
    while True:
        found = service.jobs(limit=min(500, config.show))
        text = table.table(table.job_rows(found["jobs"], time.time()))
        counts = ", ".join(f"{count} {state}" for state, count in sorted(found["counts"].items())) or "no jobs"
        if follow and sys.stdout.isatty():
            print("\x1b[H\x1b[2J", end="")
        print(f"{text}\n{counts}", flush=True)
        if not follow:
            return compose.OK
        next(iter(service.events(after=found["newest"])))
        time.sleep(0.5)


def job(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    print(table.detail(service.job(_name("job", words))))
    return compose.OK


def why(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    print(table.why(service.why(_name("why", words))))
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
    """Stops a job and waits until it has ended."""
    name = _name("stop", words)
    if service.job(name)["state"] not in ENDED:
        service.act(name, "stop")
    deadline = time.monotonic() + config.stop_timeout
    while (state := service.job(name)["state"]) not in ENDED and time.monotonic() < deadline:
        time.sleep(0.2)
    print(f"{name}: {state}")
    return compose.OK if state in ENDED else compose.FAILED


def act(verb: str) -> Verb:
    """Returns the command `yield` or `retry`."""

    def run(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
        found = service.act(_name(verb, words), verb)
        print(f"{found['id']}: {found['state']}")
        return compose.OK

    return run


def priority(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Sets the priority: JOB low|normal|high."""
    plain = _plain(words)
    if len(plain) != 2:
        raise UserError("say which job and which priority: dragoman priority JOB high")
    if plain[1] not in PRIORITIES:
        raise unknown("priority", plain[1], PRIORITIES)
    found = service.act(plain[0], "priority", priority=plain[1])
    print(f"{found['id']}: {PRIORITY_NAMES[found['priority']]}")
    return compose.OK


def remove(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    name = _name("rm", words)
    service.remove(name)
    print(f"{name}: removed")
    return compose.OK


def report(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Writes JOB.html to the working folder and prints its path."""
    name = _name("report", words)
    path = Path(f"{name}.html")
    atomic_write(path, service.report(name))
    print(path)
    return compose.OK


VERBS: dict[str, Verb] = {
    **{"submit": submit, "jobs": jobs, "job": job, "why": why, "logs": logs, "stop": stop, "yield": act("yield")},
    **{"retry": act("retry"), "priority": priority, "rm": remove, "report": report},
    **{"quota": admin.quota, "owner": admin.owner, "token": admin.token, "bill": admin.bill},
}


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if "=" not in word and not word.startswith("-")]


def _name(verb: str, words: Sequence[str]) -> str:
    plain = _plain(words)
    if len(plain) != 1:
        raise UserError(f"say which job: dragoman {verb} JOB (dragoman jobs lists them)")
    return plain[0]


def _flag(words: Sequence[str]) -> bool:
    return any(word in ("-f", "--follow") for word in words)
