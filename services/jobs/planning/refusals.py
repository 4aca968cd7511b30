"""Refuses submissions that name code, the environment, servers of one's own choice, or files of others.

A submission is a verb and overrides. The words are checked as they were written. What they compose is then compared
with what the shipped files alone compose, and every value that leads to a file is followed to that file.
`dragoman.pipelines.places` says which keys do; nothing here looks at the form of a value.
"""

import importlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dragoman.conf import groups
from dragoman.model.errors import UserError, unknown

VERBS = ("shard", "train", "evaluate", "compare", "promote", "rollback", "sync", "unpack", "synthesize", "doctor")
COMMANDS = re.compile(rf"\bdragoman ({'|'.join(VERBS)})\b")
CLAIMS = {"train": "name", "shard": "paths.shards"}  # the key of what only one job may write at a time
SPREADING = {"shard", "train", "compare"}  # commands that need the cluster's workers
MOST_WORDS, LONGEST = 100, 2000  # words, characters of one
ELASTIC = re.compile(r"cluster\.workers=(\d{1,4})\.\.(\d{1,4})")  # a job that takes what is free
WORD = re.compile(r"(\+{0,2}|~)([a-zA-Z_][\w.@/]*)(=(.*))?", re.DOTALL)
OURS = {  # keys that the service sets, and sections of other verbs
    "cluster.address": "the service says where a job runs",
    "tracking.uri": "the service says where runs are recorded",
    "tracking.artifacts": "the service says where artefacts lie",
    "hydra": "a job has no settings of Hydra's own",
    "jobs": "options of the job stand beside its overrides",
    "sweep": "options of a sweep stand beside its trials' overrides",
}
READ = ("corpora", "shards", "runs", "versions", "cache")  # folders below the home that jobs may read
WRITTEN = ("corpora", "shards", "runs")  # folders below the home in which jobs make folders of their own
# Folders below the home that no job may open, whatever the roots are; the first two hold secrets.
CLOSED = ("service", "endpoint", "jobs", "mlflow")
MOST_FILES = 20_000  # entries of a folder whose links are followed
GROUPS = groups.default_choices().keys()
CODE = ("_target_", "_partial_", "_recursive_", "_convert_")


def job_root() -> type[Any]:
    """Returns the root of the verbs of jobs; services import the pipelines by name alone."""
    root: type[Any] = importlib.import_module("dragoman.pipelines.config").Config
    return root


def check_words(verb: str, words: Sequence[str]) -> None:
    """The first check, of the words alone."""
    if verb not in VERBS:
        raise unknown("verb", verb, VERBS)
    if len(words) > MOST_WORDS:
        raise UserError(f"{len(words)} overrides: a job has at most {MOST_WORDS}")
    for word in words:
        word_shown = repr(word[:80])
        if len(word) > LONGEST:
            raise UserError(f"{word_shown}...: an override has at most {LONGEST} characters")
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in word) or not word.isprintable():
            raise UserError(f"{word_shown}: an override has no control characters")
        match = WORD.fullmatch(word)
        if match is None:
            raise UserError(f"{word_shown}: an override is key=value")
        if "${" in word.replace("\\", "") or "$\\{" in word:
            raise UserError(f"{word_shown}: a job's overrides have no ${{...}}: they would be resolved on the service")
        if "@" in match[2]:
            raise UserError(f"{word_shown}: a job's overrides move no section into another")
        if any(name in word for name in CODE):
            raise UserError(f"{word_shown}: a job names no code")
        for name, reason in OURS.items():
            key = match[2].replace("/", ".")
            if key == name or key.startswith(f"{name}."):
                raise UserError(f"{word_shown}: {reason}")
        if match[4] is None and match[1] != "~":
            raise UserError(f"{word_shown}: an override is key=value")


@dataclass(frozen=True)
class Areas:
    """Where jobs may read and write."""

    home: Path
    roots: tuple[Path, ...] = ()  # service.roots, to be read
    secrets: tuple[Path, ...] = ()  # files of the service outside its own folder

    @cached_property
    def readable(self) -> tuple[Path, ...]:
        """Folders with every link followed."""
        return tuple(place.resolve() for place in (*(self.home / name for name in READ), *self.roots))

    @cached_property
    def writable(self) -> tuple[Path, ...]:
        """Folders with every link followed."""
        return tuple((self.home / name).resolve() for name in WRITTEN)

    @cached_property
    def closed(self) -> tuple[Path, ...]:
        """Files and folders with every link followed."""
        return tuple(place.resolve() for place in (*(self.home / name for name in CLOSED), *self.secrets))

    def reads(self, path: Path) -> bool:
        """Returns True if jobs may read `path`, a real one, and everything below it."""
        return any(path.is_relative_to(area) for area in self.readable) and not self.keeps(path)

    def keeps(self, path: Path) -> bool:
        """Returns True if `path` is closed, lies in a closed folder, or holds one."""
        return any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in self.closed)

    def writes(self, path: Path) -> bool:
        """Returns True if a job may make the folder `path`: below an area, never the area itself."""
        return any(path != area and path.is_relative_to(area) for area in self.writable) and not self.keeps(path)

    def is_secret(self, path: Path) -> bool:
        """Returns True if `path` is a hard link to a file of the service."""
        try:
            status = path.stat()
        except OSError:
            return False
        return status.st_nlink > 1 and (status.st_dev, status.st_ino) in set(self._secret_inodes())

    def _secret_inodes(self) -> Iterator[tuple[int, int]]:
        folders = [self.home / name for name in CLOSED[:2]]
        for path in (*itertools.chain.from_iterable(folder.rglob("*") for folder in folders), *self.secrets):
            try:
                status = path.stat()
            except OSError:
                continue
            yield status.st_dev, status.st_ino


def shipped_words(words: Sequence[str]) -> tuple[str, ...]:
    """Returns the overrides that choose a file of conf/ or leave out a key of the model: what they compose is ours.

    Called before the words are composed, for Hydra would follow a path out of conf/.
    """
    words_sent = []
    for word in words:
        match = WORD.fullmatch(word)
        key, value = (match[2], match[4] or "") if match else ("", "")
        if "/" in key:
            raise UserError(f"{key}={shorten(value)}: a key has dots between its parts")
        if word.startswith("~model.") and match and match[3] is None:  # other keys that are left out are looked at
            words_sent.append(word)
        if key not in GROUPS or value.startswith("{"):
            continue
        if value not in ("", "null", *groups.choices(key)):
            raise unknown(key, shorten(value), groups.choices(key))
        if word == f"{key}={value}" and value in groups.choices(key):
            words_sent.append(word)
    return tuple(words_sent)


def check_values(
    verb: str, words: Sequence[str], values: Mapping[str, Any], shipped: Mapping[str, Any], areas: Areas
) -> list[dict[str, str]]:
    """The second check, of what the words compose. `shipped` is what `shipped_words` of them compose.

    Returns every file and folder that the job opens, as `key`, `value`, `path` (real) and `use`: one of
    `dragoman.pipelines.places.Use`. The service decides by its ledger whose they are.
    """
    places: Any = importlib.import_module("dragoman.pipelines.places")
    for key, value in _leaves(values):
        if any(name in key.split(".") for name in CODE) or any(name in value for name in CODE):
            raise UserError(f"{key}: a job names no code")
    for key in places.KINDS:
        if _has(shipped, key) and not _has(values, key):
            raise UserError(f"{key}: a job takes no key away, for its default is another place")
    theirs = dict(places.values_of(shipped, places.Kind.SERVICE))
    for key, value in places.values_of(values, places.Kind.SERVICE):
        if value != theirs[key]:
            said = OURS.get(key) or "only whoever runs the service sets it"
            raise UserError(f"{key}={shorten(value)}: {said}; leave it out")
    named = any(word.lstrip("+").startswith("name=") for word in words)
    inputs: dict[tuple[Path, str], dict[str, str]] = {}
    starts: list[Path] = []
    for place in places.find_places(verb, values, named):
        for path, use in _checked(place, areas, _at(shipped, "paths")):
            starts += [path] if use == "start" else []
            if use != "read" or not any(path.is_relative_to(start) for start in starts):
                inputs.setdefault((path, use), {"key": place.key, "value": place.value, "path": str(path), "use": use})
    if str(_at(values, "tracking.uri")).startswith("sqlite:"):  # no server: the job writes the database itself
        mlflow = str(_at(values, "paths.mlflow"))
        path = Path(mlflow).resolve()
        inputs[path, "cache"] = {"key": "paths.mlflow", "value": mlflow, "path": str(path), "use": "cache"}
    return list(inputs.values())


def _checked(place: Any, areas: Areas, shipped: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """(real path, use) of what the job opens at a place, links inside of it followed."""
    path, use = place.path, place.use
    display = f"{place.key}={shorten(place.value)}"
    match use:
        case "root":
            if path != areas.home.resolve():
                raise UserError(f"{display}: jobs work below the service's own; leave it out")
            return
        case "cache":
            if place.value != str(shipped["cache"]) and not path.is_relative_to((areas.home / "cache").resolve()):
                raise UserError(f"{display}: only whoever runs the service sets it; leave it out")
        case "write":
            if not areas.writes(path):
                below = _named(areas.writable)
                raise UserError(f"{display}: lies outside of what jobs may write: a folder of its own below {below}")
        case "maybe":
            exists = os.path.lexists(path)
            if any(path.is_relative_to(folder) for folder in areas.closed) or (exists and not areas.reads(path)):
                raise _outside(place, areas)
            if not areas.reads(path):
                return
        case _:
            if not areas.reads(path) or areas.is_secret(path):
                raise _outside(place, areas)
            if use == "inside":
                return
    yield path, use
    if use in ("read", "maybe", "write") and path.is_dir():
        yield from _linked(place, areas)


def _linked(place: Any, areas: Areas) -> Iterator[tuple[Path, str]]:
    """Returns the targets of the links in a folder."""
    for entry in itertools.islice(place.path.rglob("*"), MOST_FILES):
        if entry.is_symlink():
            try:
                real = entry.resolve()
            except (OSError, RuntimeError):  # a link to itself leads nowhere
                continue
            if not areas.reads(real):
                raise _outside(place, areas)
            yield real, "read"
        elif areas.is_secret(entry):
            raise _outside(place, areas)


def _outside(place: Any, areas: Areas) -> UserError:
    return UserError(
        f"{place.key}={shorten(place.value)}: lies outside of what jobs may use: {_named(areas.readable)} "
        f"(service.roots adds more)"
    )


def as_jobs(text: str) -> str:
    """Returns advice with the commands that make jobs: `dragoman shard` as `dragoman submit shard`."""
    return COMMANDS.sub(r"dragoman submit \1", text)


def shorten(value: object) -> str:
    """A value for a message."""
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _named(folders: Sequence[Path]) -> str:
    return ", ".join(map(str, folders))


def _at(values: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return {}
        values = values[part]
    return values


def _has(values: Mapping[str, Any], key: str) -> bool:
    section, _, name = key.rpartition(".")
    return name in ((_at(values, section) or {}) if section else values)


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
