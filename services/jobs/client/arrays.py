"""An array: one submission of several jobs, every combination of the listed values."""

import logging
from collections.abc import Sequence
from typing import Any

from dragoman.conf import compose, showing
from dragoman.conf.options import combinations
from dragoman.model.errors import UserError
from dragoman.model.plural import plural
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.options import MOST_RUNS

ARRAY = "--array"
logger = logging.getLogger(__name__)


def options(config: JobsConfig) -> dict[str, Any]:
    """Returns how a job is queued, as the client takes it. Raises UserError for an impossible `jobs.by`."""
    return {
        **{
            "priority": config.priority,
            "project": config.project or "",
            "after": list(config.after),
            "tags": list(config.tags),
        },
        **{"notify": list(config.notify), "retries": config.retries, "max_hours": config.max_hours or None},
        "by": table.moment(config.by) if config.by else None,
    }


def submit(config: JobsConfig, service: JobClient, verb: str, overrides: Sequence[str]) -> int:
    """Submits the jobs and prints their ids.

    Raises:
        UserError: nothing varies, there are too many combinations, or the service refuses one.
    """
    if config.every is not None or config.plan == "only":
        raise UserError(f"{ARRAY}: --every and jobs.plan=only are for a single job")
    lines = combinations(overrides)
    if len(lines) < 2:
        raise UserError(f"{ARRAY}: give a key some values, as in dragoman submit {ARRAY} {verb} seed=1,2,3")
    if len(lines) > MOST_RUNS:
        raise UserError(f"{ARRAY}: {len(lines):,} combinations; at most {MOST_RUNS} are submitted at once")
    common = [word for word in lines[0] if all(word in line for line in lines)]
    runs = [[word for word in line if word not in common] for line in lines]
    found = service.submit_array(verb, common, runs, **options(config))
    tag = found[0]["tags"][-1]
    showing.show(found, lambda: "\n".join(job["id"] for job in found))
    logger.info("%s: dragoman jobs tag=%s    dragoman stop tag=%s", plural(len(found), "job"), tag, tag)
    return compose.OK
