"""The jobs that a command means: by their ids, or by filters, `state=failed owner=anna since=2d`."""

import sys
from collections.abc import Sequence
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.plural import plural
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.filters import read_filters

DRY_RUN, YES = "--dry-run", "--yes"


def select(verb: str, service: JobClient, words: Sequence[str]) -> list[dict[str, Any]]:
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


def confirm(verb: str, jobs: Sequence[dict[str, Any]], words: Sequence[str]) -> bool:
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
