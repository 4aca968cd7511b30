"""A bundle as a directory: written atomically, opened by its config.json, every file checked against its sha256.

Holds what all kinds of bundle share. Word vectors have `model/bundles/vectors.py`; networks have
`model/bundles/network.py` and a file for each kind: `translation.py`, `language.py` (plain and masked), `labelled.py`.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_directory, atomic_path, atomic_write, file_sha256
from dragoman.model.untrusted import read_object

FORMAT_VERSION = 2
CONFIG, WEIGHTS = "config.json", "model.safetensors"
# Fields of config.json that describe the bundle itself; each kind adds its own. The rest are facts.
STRUCTURE = ("format_version", "kind", "architecture", "model", "tokenizer", "files")


@dataclass(kw_only=True)
class Bundle:
    """A bundle on disk whose files have been checked. Large parts are read on first use."""

    directory: Path
    model: Mapping[str, Any]  # the architecture and its configuration, as config.json has them
    pair: str  # "en-de"; "en" for one language
    facts: dict[str, Any] = field(default_factory=dict)  # scores, manifest_hash, run ...
    files: tuple[str, ...] = ()
    digest: str = ""  # sha256 (hex) of config.json, which covers every other file

    @cached_property
    def config(self) -> Any:
        """Returns the architecture's config dataclass."""
        from dragoman.model.networks.architectures import model_config  # loads torch

        return model_config(self.model)

    @property
    def normalisation(self) -> str:
        """Returns the Unicode form that texts are normalised to."""
        return str(self.facts.get("normalisation", "NFC"))

    def update_facts(self, facts: Mapping[str, Any]) -> None:
        """Adds or replaces facts (such as scores measured later), here and in config.json."""
        record, _ = _content(self.directory)
        check_facts(facts, set(record) - set(self.facts) - {"pair"})
        self._rewrite({**record, **facts})
        self.facts |= facts

    def add_file(self, source: Path) -> None:
        """Copies a file into the bundle and lists it."""
        record, _ = _content(self.directory)
        with atomic_path(self.directory / source.name) as part:
            shutil.copyfile(source, part)
        record["files"][source.name] = describe(self.directory / source.name)
        self._rewrite(record)
        self.files = tuple(record["files"])

    def _rewrite(self, record: Mapping[str, Any]) -> None:
        content = _json(record)
        atomic_write(self.directory / CONFIG, content)
        self.digest = hashlib.sha256(content.encode()).hexdigest()


class Common(TypedDict):
    """The fields of `Bundle` that every kind reads alike."""

    directory: Path
    model: Mapping[str, Any]
    pair: str
    facts: dict[str, Any]
    files: tuple[str, ...]
    digest: str


@contextlib.contextmanager
def new_bundle(directory: Path, record: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Path]:
    """Yields a folder for a bundle's files; at the end it gets its config.json and replaces `directory`.

    `record` describes the bundle, `facts` its origin: JSON, with at least `pair`.
    """
    check_facts(facts, {*STRUCTURE, *record})
    with atomic_directory(directory) as work:
        yield work
        files = {name: describe(work / name) for name in listing(work)}
        content = {"format_version": FORMAT_VERSION, **record, "files": files, **facts}
        (work / CONFIG).write_text(_json(content), encoding="utf-8")


def bundle_hash(bundle: Path) -> str:
    """Returns the sha256 (hex) of the bundle's `config.json`, which itself lists the sha256 of every other file."""
    return file_sha256(bundle / CONFIG)


def is_bundle(directory: Path) -> bool:
    """Returns True if the folder has the config.json of a bundle, of any format."""
    return "format_version" in read_object(directory / CONFIG)


def bundle_kind(directory: Path) -> str:
    """Returns the kind of the bundle; bundles of translation models do not store it."""
    return str(_content(directory)[0].get("kind", "translation"))


def read_facts(directory: Path) -> dict[str, Any]:
    """Returns the content of config.json, without checking any file."""
    return _content(directory)[0]


def read_record(directory: Path, kind: str, own: tuple[str, ...]) -> tuple[dict[str, Any], Common]:
    """Returns the content of config.json of a bundle of `kind` and the fields that all kinds share; checks every file.

    `own`: the fields that a bundle of this kind adds.
    """
    record, digest = _content(directory)
    path = directory / CONFIG
    kind_read = bundle_kind(directory)
    if kind_read != kind:
        raise UserError(f"{directory}: a bundle of the kind {kind_read!r}; one of the kind {kind!r} is needed here")
    structure = {*STRUCTURE, *own}
    for key in (*STRUCTURE, *own, "pair"):
        if key not in record and key != "kind":
            raise UserError(f"{path}: {key} is missing")
    check_files(directory, record["files"])
    return record, {
        "directory": directory,
        "model": record["model"],
        "pair": str(record["pair"]),
        "facts": {key: value for key, value in record.items() if key not in structure},
        "files": tuple(record["files"]),
        "digest": digest,
    }


def _content(directory: Path) -> tuple[dict[str, Any], str]:
    path = directory / CONFIG
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise UserError(f"{directory}: not a bundle; its {CONFIG} cannot be read ({problem.strerror})") from None
    try:
        record = json.loads(content)
    except ValueError as problem:
        raise UserError(f"{path}: not JSON ({problem})") from None
    if not isinstance(record, dict) or "format_version" not in record:
        raise UserError(f"{path}: not a bundle's; it has no format_version")
    if record["format_version"] != FORMAT_VERSION:
        raise UserError(
            f"{path}: format_version {record['format_version']!r}, and this program reads {FORMAT_VERSION}: train or "
            "import the model again"
        )
    return record, hashlib.sha256(content).hexdigest()


def check_facts(facts: Mapping[str, Any], structure: set[str]) -> None:
    """Raises UserError if facts use a name of the bundle's own fields."""
    taken = sorted(set(facts) & structure)
    if taken:
        raise UserError(f"bundle facts: {', '.join(taken)} cannot be facts; they describe the bundle itself")


def check_files(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises UserError unless each listed file lies inside the bundle and has the sha256 that was saved."""
    for name, recorded in files.items():
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise UserError(f"{directory / CONFIG}: files: {name!r} lies outside the bundle")
        path = directory / name
        if not path.is_file():
            raise UserError(f"{path}: missing from the bundle")
        if describe(path) != dict(recorded):
            raise UserError(f"{path}: not the file that was saved (its sha256 differs); fetch or export it again")
    if WEIGHTS not in files:
        raise UserError(f"{directory / CONFIG}: files: {WEIGHTS} is missing")


def describe(path: Path) -> dict[str, Any]:
    """Returns {sha256, bytes} of a file."""
    return {"sha256": file_sha256(path), "bytes": path.stat().st_size}


def listing(directory: Path) -> list[str]:
    """Returns every file below `directory`, as sorted relative names with /."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def _json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
