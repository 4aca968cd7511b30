"""Starts the job commands, which talk to the job service."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.model.errors import UserError, unknown
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.client import submission, verbs
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.options import is_option
from dragoman.services.jobs.planning.refusals import ELASTIC, VERBS
from dragoman.services.jobs.settings import Root
from dragoman.services.verbs import run_verb

OURS = re.compile(r"[+~]*(jobs[.=]|paths\.root=)")  # settings of the request itself
BOUND = re.compile(r"jobs=(\d|none|null).*")  # a bound of a quota, and no setting
CONNECTION = re.compile(r"[+~]*(jobs\.(service|key_file|owner)=|paths\.root=)")  # those that say which service
OWN_OPTIONS = {"jobs": verbs.FOLLOW, "logs": verbs.FOLLOW} | dict.fromkeys(("stop", "rm"), (verbs.DRY_RUN, verbs.YES))


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command that is the first word."""
    verb, *words = argv
    if verb == "submit":
        name, words = submission.take_from(words)
        if name is not None:
            return _submit_from(name, words)
    rest = [word for word in words if not (is_option(word) if verb == "submit" else _is_ours(verb, word))]
    own = OWN_OPTIONS.get(verb, ())
    first = next((at for at, word in enumerate(words) if word.startswith("-") and word not in own), len(words))
    options = words[first:]  # --cfg job shows a submission's settings as the job would have them
    settings = [word for word in words[:first] if _is_ours(verb, word)]

    def ask(root: Root) -> int:
        if options:
            raise UserError(f"{options[0]}: {verb} takes {', '.join((*own, '--cfg job'))}")
        with connect(root) as client:
            return verbs.VERBS[verb](root.jobs, client, rest)

    def check(_: Root) -> int:
        return _check_submission(rest) if verb == "submit" else compose.OK

    if verb == "submit" and options and rest[:1] and rest[0] in VERBS:
        return run_verb(rest[0], rest[1:])
    return compose.run(ask, Root, [*settings, *options], verb, check, shown=["jobs"])


def _submit_from(name: str, words: Sequence[str]) -> int:
    """Runs `submit` with the words of a job and, after them, `words`; returns its exit code."""
    identities: list[str] = []

    def look(root: Root) -> int:
        with connect(root) as client:
            identities.extend(submission.words_again(client, name, words))
        return compose.OK

    code = compose.run(look, Root, [word for word in words if CONNECTION.match(word)], "submit")
    return main(["submit", *identities]) if identities else code  # a rehearsal asks no service


def _is_ours(verb: str, word: str) -> bool:
    """Returns True if a word is a setting of the request itself."""
    return OURS.match(word) is not None and not (verb == "quota" and BOUND.match(word))


def _check_submission(words: Sequence[str]) -> int:
    """Lets the submitted command check its command line, with the most workers of a range; returns its exit code."""
    verb, *overrides = verbs.submitted(words)
    if verb not in VERBS:
        raise unknown("submit: verb", verb, VERBS)
    return run_verb(verb, [ELASTIC.sub(r"cluster.workers=\2", word) for word in overrides])


def address(root: Root) -> str:
    """Returns the address of the job service. Raises UserError: none is named, and none runs here."""
    if root.jobs.service is not None:
        if not root.jobs.service.startswith(("http://", "https://")):
            raise UserError(f"jobs.service={root.jobs.service}: give its address as http://HOST:8300")
        return root.jobs.service
    if jobs := running_here(root.paths["root"]).get("jobs"):
        return str(jobs)
    raise UserError(
        "jobs.service: none is named, and no job service runs here. Start one with `dragoman up`, or name another "
        "with jobs.service=http://HOST:8300"
    )


def running_here(home: str) -> Mapping[str, Any]:
    """Returns part -> address of the `dragoman up` that runs on a home; empty if none does."""
    return read_object(Path(home) / "service" / "address.json")


def connect(root: Root) -> JobClient:
    """Returns the client of the service that the settings name."""
    return verbs.client(root.jobs, address(root))
