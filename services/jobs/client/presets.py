"""Presets: submissions that are kept under names, and jobs that are submitted again with changes."""

from collections.abc import Sequence

from dragoman.conf import compose, showing
from dragoman.conf.again import key_of
from dragoman.model.errors import UserError, unknown
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.options import merge_words
from dragoman.services.jobs.states import PRIORITY_NAMES

FROM, SAVE = "--from", "--save"


def take(option: str, words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Returns the name after `option`, None if it is not there, and the other words. Raises UserError."""
    if option not in words:
        return None, list(words)
    at = words.index(option)
    if at + 1 == len(words) or words[at + 1].startswith("-") or "=" in words[at + 1]:
        raise UserError(f"{option}: say the name: dragoman submit {option} NAME")
    return words[at + 1], [*words[:at], *words[at + 2 :]]


def submission(service: JobClient, name: str, words: Sequence[str]) -> list[str]:
    """Returns the verb and the words of a preset, or of a job with that id, changed by `words`."""
    presets = {one["name"]: one for one in service.presets()}
    if name in presets:
        verb, first = presets[name]["verb"], presets[name]["words"]
    else:
        try:
            job = service.job(name)
        except UserError:
            raise unknown(f"{FROM}: preset or job", name, presets) from None
        verb, first = job["verb"], [word for word in job["words"] if verb_keeps(job["verb"], word)]
        if verb == "train" and not any(key_of(word) == "name" for word in words):
            raise UserError(f"{FROM} {name}: add name=NEW, or this training would go on with the run of {name}")
        first += [f"jobs.priority={PRIORITY_NAMES.get(job['priority'], 'normal')}", f"jobs.retries={job['retries']}"]
        tags = [tag for tag in job["tags"] if not tag.startswith("array-")]  # it is none of that array
        first += [f"jobs.tags=[{','.join(tags)}]"] if tags else []
        first += [f"jobs.project={job['project']}"] if job["project"] else []
        first += [f"jobs.max_hours={job['max_seconds'] / 3600:g}"] if job["max_seconds"] else []
    for word in words:
        if "=" not in word and not word.startswith(("-", "~")) and word != verb:
            raise UserError(f"{word}: {name} is a submission of {verb}; give settings that change it, KEY=VALUE")
    return [verb, *merge_words(first, [word for word in words if word != verb])]


def verb_keeps(verb: str, word: str) -> bool:
    """Returns True if a word of a job belongs to its copy too: not a training's name, under which it would go on."""
    return verb != "train" or key_of(word) != "name"


def save(service: JobClient, name: str, verb: str, words: Sequence[str]) -> int:
    """Keeps a submission and prints its name; queues nothing."""
    found = service.keep_preset(name, verb, words)
    showing.show([found], lambda: name)
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
    found = service.presets()
    rows: list[Sequence[object]] = [("NAME", "COMMAND", "SINCE")]
    rows += [(one["name"], " ".join([one["verb"], *one["words"]]), table.clock(one["changed"])) for one in found]
    showing.show(found, lambda: table.table(rows))
    return compose.OK
