"""The jobs that a command means: by their ids, or by filters, `state=failed owner=anna since=2d`."""

import sys
from collections.abc import Sequence
from typing import Any

from dragoman.model.errors import UserError, unknown
from dragoman.model.plural import plural
from dragoman.services.jobs.client.client import FILTERS, JobClient, JobFilters
from dragoman.services.jobs.states import State

DRY_RUN, YES = "--dry-run", "--yes"
LISTS = {"state": list(State), "tag": None}  # filters of several values, A,B, and the choices of each


def read_filters(verb: str, words: Sequence[str]) -> JobFilters:
    """Returns the filters in `words`, as the client takes them."""
    filters: JobFilters = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{word}: a filter is written KEY=VALUE, such as state=failed or since=2d")
        if key not in FILTERS:
            raise unknown("filter", key, FILTERS)
        if not value:
            raise UserError(f"{key}= is empty; leave it out for all")
        if key in LISTS:
            values = value.split(",")
            for state in values if key == "state" else ():
                if state not in list(State):
                    raise unknown("state", state, list(State))
            filters[key] = values  # type: ignore[literal-required]  # one of FILTERS
        else:
            filters[key] = value  # type: ignore[literal-required]
    return filters


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
    return [dict(job) for job in service.every_job(**read_filters(verb, filters))]


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
