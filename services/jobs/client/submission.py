"""Reads what a command line submits: how a job is queued, and the words of one that is submitted again with changes."""

from collections.abc import Sequence

from dragoman.conf.again import key_of
from dragoman.model.errors import UserError
from dragoman.services.jobs.client.client import JobClient, Options
from dragoman.services.jobs.options import merge_words
from dragoman.services.jobs.settings import JobsConfig
from dragoman.services.jobs.states import PRIORITY_NAMES

FROM = "--from"


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
