"""Starts the job commands, which talk to the job service."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.conf.again import key_of
from dragoman.model.errors import UserError, unknown
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.client import verbs
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.options import is_option, merge_words
from dragoman.services.jobs.planning.refusals import ELASTIC, VERBS
from dragoman.services.jobs.settings import Root
from dragoman.services.jobs.states import PRIORITY_NAMES
from dragoman.services.verbs import run_verb

OURS = re.compile(r"[+~]*(jobs[.=]|paths\.root=)")  # settings of the request itself
BOUND = re.compile(r"jobs=(\d|none|null).*")  # a bound of a quota, and no setting
CONNECTION = re.compile(r"[+~]*(jobs\.(service|key_file|owner)=|paths\.root=)")  # those that say which service
FROM = "--from"
OWN_OPTIONS = {"jobs": verbs.FOLLOW, "logs": verbs.FOLLOW} | dict.fromkeys(("stop", "rm"), (verbs.DRY_RUN, verbs.YES))


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command that is the first word."""
    verb, *words = argv
    if verb == "submit":
        name, words = take_from(words)
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
            identities.extend(words_again(client, name, words))
        return compose.OK

    code = compose.run(look, Root, [word for word in words if CONNECTION.match(word)], "submit")
    return main(["submit", *identities]) if identities else code  # a rehearsal asks no service


def take_from(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Returns the job after `--from`, None if it is not there, and the other words."""
    if FROM not in words:
        return None, list(words)
    at = words.index(FROM)
    if at + 1 == len(words) or words[at + 1].startswith("-") or "=" in words[at + 1]:
        raise UserError(f"{FROM}: say the job: dragoman submit {FROM} JOB")
    return words[at + 1], [*words[:at], *words[at + 2 :]]


def words_again(service: JobClient, name: str, words: Sequence[str]) -> list[str]:
    """Returns the verb and the words of a job, changed by `words`."""
    job = service.job(name)
    verb = job["verb"]
    first = [word for word in job["words"] if verb != "train" or key_of(word) != "name"]  # it would go on with it
    if verb == "train" and not any(key_of(word) == "name" for word in words):
        raise UserError(f"{FROM} {name}: add name=NEW, or this training would go on with the run of {name}")
    first += [f"jobs.priority={PRIORITY_NAMES.get(job['priority'], 'normal')}", f"jobs.retries={job['retries']}"]
    first += [f"jobs.tags=[{','.join(job['tags'])}]"] if job["tags"] else []
    first += [f"jobs.max_hours={job['max_seconds'] / 3600:g}"] if job["max_seconds"] else []
    for word in words:
        if "=" not in word and not word.startswith(("-", "~")) and word != verb:
            raise UserError(f"{word}: {name} is a submission of {verb}; give settings that change it, KEY=VALUE")
    return [verb, *merge_words(first, [word for word in words if word != verb])]


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
    """Returns the address of the job service."""
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
