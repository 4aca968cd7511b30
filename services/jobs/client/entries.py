"""Starts the job commands: they talk to the job service, or to a Ray head if `jobs.address` names one.

The service has a queue, owners, priorities and plans. A Ray head runs each job at once, which is enough for a private
cluster.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf import compose
from model.errors import UserError
from services.jobs import jobs as ray_head
from services.jobs.client import verbs
from services.jobs.executors.ray_client import JobsConfig
from services.jobs.planning.refusals import ELASTIC

OURS = re.compile(r"[+~]*(jobs[.=]|paths\.root=|cluster=|cluster\.address=)")  # settings of the request itself
OF_RAY = {"submit", "jobs", "logs", "stop"}  # commands that a Ray head supports


@dataclass
class Root:
    """The sections that name the service or the head."""

    jobs: JobsConfig
    paths: dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command that is the first word."""
    verb, *words = argv
    found: list[Root] = []
    code = compose.run(found.append, Root, [word for word in words if OURS.match(word)], verb, lambda _: None)
    if code != compose.OK:
        return code
    rehearsing = not found
    options = any(word.startswith("-") and word not in ("-f", "--follow") for word in words)
    if verb in OF_RAY and (rehearsing or options or found[0].jobs.address is not None):
        # A head needs a number of workers: the largest of a range, unless something is submitted.
        return ray_head.main([ELASTIC.sub(r"cluster.workers=\2", word) for word in argv] if rehearsing else argv)
    if rehearsing:
        return compose.OK
    rest = [word for word in words if not is_ours(word)]

    def ask(root: Root) -> int:
        if root.jobs.address is not None:
            raise UserError(f"jobs.address={root.jobs.address}: a Ray head knows no {verb}: ask the service")
        with verbs.client(root.jobs, address(root)) as client:
            return verbs.VERBS[verb](root.jobs, client, rest)

    return compose.run(ask, Root, [word for word in words if OURS.match(word)], verb)


def is_ours(word: str) -> bool:
    """Returns True if a word is for the request itself, and no setting of the job."""
    return re.match(r"[+~]*jobs[.=]", word) is not None


def address(root: Root) -> str:
    """Returns the address of the job service.

    Raises:
        UserError: none is named, and none runs here.
    """
    if root.jobs.service is not None:
        if not root.jobs.service.startswith(("http://", "https://")):
            raise UserError(f"jobs.service={root.jobs.service}: give its address as http://HOST:8300")
        return root.jobs.service
    path = Path(root.paths["root"]) / "service" / "address.json"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["jobs"])
    except (OSError, ValueError, KeyError):
        raise UserError(
            "jobs.address: no cluster is named, and no job service runs here. Start one with `dragoman up`, name "
            "another with jobs.service=http://HOST:8300, or give a Ray head's dashboard, jobs.address=http://HOST:8265 "
            "(or cluster=ray for the one that RAY_ADDRESS names)"
        ) from None
