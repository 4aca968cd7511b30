"""What nobody may submit: code, the environment, places outside the configured roots, servers of one's own choice.

A submission is a verb and overrides. The words are checked as they were written, and what was composed of them once
more: a quotation that hides a path from the first check does not hide it from the second.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conf import groups
from model.errors import UserError, unknown

VERBS = ("shard", "train", "evaluate", "compare", "promote", "rollback", "sync", "unpack", "doctor")
SPREADING = {"shard", "train", "compare"}  # verbs that ask the cluster for workers
MOST_WORDS, LONGEST = 100, 2000  # words, characters of one
ELASTIC = re.compile(r"cluster\.workers=(\d{1,4})\.\.(\d{1,4})")  # a job that takes what is free
WORD = re.compile(r"(\+{0,2}|~)([a-zA-Z_][\w.@/]*)(=(.*))?", re.DOTALL)
OURS = {  # keys that the service sets, and sections that lead elsewhere
    "cluster.address": "the service says where a job runs",
    "tracking.uri": "the service says where runs are recorded",
    "tracking.artifacts": "the service says where artefacts lie",
    "hydra": "a job has no settings of Hydra's own",
    "jobs": "options of the job stand beside its overrides",
    "service": "it is the service's own",
    "sweep": "options of a sweep stand beside its trials' overrides",
    "serve": "the service has an endpoint already",
}
REFERENCE = re.compile(r"(models:/)?[\w+-][\w.+-]*([@/][\w.+-]+)?")  # a run, MODEL@ALIAS, MODEL/3
REFERENCES = {"evaluate", "embeddings", "models", "promote", "vectors"}  # sections where such stand
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
CODE = ("_target_", "_partial_", "_recursive_", "_convert_")


def check_words(verb: str, words: Sequence[str]) -> None:
    """The first check, of the words alone.

    Raises:
        UserError: names the word and why.
    """
    if verb not in VERBS:
        raise unknown("verb", verb, VERBS)
    if len(words) > MOST_WORDS:
        raise UserError(f"{len(words)} overrides: a job has at most {MOST_WORDS}")
    for word in words:
        shown = repr(word[:80])
        if len(word) > LONGEST:
            raise UserError(f"{shown}...: an override has at most {LONGEST} characters")
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in word) or not word.isprintable():
            raise UserError(f"{shown}: an override has no control characters")
        match = WORD.fullmatch(word)
        if match is None:
            raise UserError(f"{shown}: an override is key=value")
        if "${" in word.replace("\\", "") or "$\\{" in word:
            raise UserError(f"{shown}: a job's overrides have no ${{...}}: they would be resolved on the service")
        if any(name in word for name in CODE):
            raise UserError(f"{shown}: a job names no code")
        for name, reason in OURS.items():
            key = match[2].partition("@")[0].replace("/", ".")
            if key == name or key.startswith(f"{name}."):
                raise UserError(f"{shown}: {reason}")
        if match[4] is None and match[1] != "~":
            raise UserError(f"{shown}: an override is key=value")


def check_values(words: Sequence[str], values: Mapping[str, Any], roots: Sequence[Path]) -> None:
    """The second check, of what the words have come to.

    Raises:
        UserError: names the key, the value and the roots.
    """
    for key, value in _leaves(values):
        if any(name in key.split(".") for name in CODE) or any(name in value for name in CODE):
            raise UserError(f"{key}: a job names no code")
    for word in words:
        match = WORD.fullmatch(word)
        assert match is not None  # check_words
        key = match[2].partition("@")[0]
        if key in groups.default_choices() and match[4] in groups.choices(key):
            continue  # a file that is shipped
        for where, value in _leaves(_at(values, key.replace("/", ".")), key):
            check_place(where, value, roots)
    for where, value in _leaves(values.get("paths", {}), "paths"):
        if where != "paths.cache":  # this machine's own, where no word above has set it
            check_place(where, value, roots)


def check_place(key: str, value: str, roots: Sequence[Path]) -> None:
    """Raises UserError where a value names a place outside of `roots`, or a server."""
    if key.partition(".")[0] in REFERENCES and REFERENCE.fullmatch(value) and ".." not in value:
        return
    if SCHEME.match(value):
        raise UserError(f"{key}={value}: a job names no server and no command; files below {_named(roots)}")
    if not re.search(r"[/\\]|^~|^\.\.?$", value):
        return
    place = Path(value).expanduser() if not value.startswith("~") else None
    inside = place is not None and any(place.resolve().is_relative_to(root.resolve()) for root in roots)
    if not inside:
        raise UserError(f"{key}={value}: lies outside of what jobs may use: {_named(roots)} (service.roots adds more)")


def _named(roots: Sequence[Path]) -> str:
    return ", ".join(map(str, roots))


def _at(values: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return {}
        values = values[part]
    return values


def _leaves(values: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, value) of every text, keys of sections included."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield f"{where}.{key}" if where else str(key), str(key) if where else ""
            yield from _leaves(value, f"{where}.{key}" if where else str(key))
    elif isinstance(values, list | tuple):
        for item in values:
            yield from _leaves(item, where)
    elif isinstance(values, str):
        yield where, values
