"""A bundle as a directory: written whole, opened by its config.json, every file checked against its sha256.

What all kinds of bundle share. What a kind holds stands in `model/bundles/translation.py` (translation models),
`model/bundles/language.py` (language models, plain and masked) and `model/bundles/vectors.py` (word vectors).
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from model.errors import UserError, unknown

FORMAT_VERSION = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
BundleKind = Literal["translation", "vectors", "language", "masked"]
KINDS: dict[BundleKind, str] = {
    "translation": "a translation model",
    "vectors": "word vectors",
    "language": "a language model",
    "masked": "a masked language model",
}
SHARED = ("format_version", "kind", "architecture", "model", "tokenizer", "files")
STRUCTURE: dict[BundleKind, tuple[str, ...]] = {  # the rest are facts
    "translation": (*SHARED, "vocabulary", "positions"),
    "vectors": (*SHARED, "table"),
    "language": (*SHARED, "vocabulary", "positions"),
    "masked": (*SHARED, "vocabulary", "positions"),
}


@contextlib.contextmanager
def whole_directory(directory: Path) -> Iterator[Path]:
    """A temporary directory beside `directory` to write into; it takes that name when the block ends without error.

    So the directory is there whole or not at all; an older one is replaced, and kept where the block fails.
    """
    directory = directory.absolute()
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        yield work
        for folder, _, names_in in os.walk(work):
            for name in [*names_in, "."]:
                synchronise(Path(folder) / name)
        work.chmod(0o755)  # mkdtemp's own is closed to others
        replace_directory(work, directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def update_facts(directory: Path, facts: Mapping[str, Any]) -> None:
    """Add or replace facts (scores measured after saving) in config.json, atomically; its files stay as they are."""
    kind = bundle_kind(directory)
    check_facts(facts, kind)
    record, _ = read_record(directory, kind)
    temporary = directory / f".{CONFIG}.new"
    write_json(temporary, {**record, **facts})
    synchronise(temporary)
    temporary.replace(directory / CONFIG)
    synchronise(directory)


def bundle_kind(directory: Path) -> BundleKind:
    """What the bundle is of; those of translation models have no `kind`.

    Raises:
        UserError: not a bundle, or one of a kind that this program does not know.
    """
    kind = _content(directory)[0].get("kind", "translation")
    if kind not in KINDS:
        raise unknown(f"{directory / CONFIG}: kind", kind, KINDS)
    return kind  # type: ignore[no-any-return]  # one of KINDS, which are the literals


def read_record(directory: Path, kind: BundleKind = "translation") -> tuple[dict[str, Any], str]:
    """The checked content of config.json and its sha256 (hex).

    Raises:
        UserError: not a bundle, one of another kind, or something missing from it.
    """
    record, digest = _content(directory)
    path = directory / CONFIG
    found = bundle_kind(directory)
    if found != kind:
        raise UserError(f"{directory}: a bundle of {KINDS[found]}; one of {KINDS[kind]} is needed here")
    for key in (*STRUCTURE[kind], "pair"):
        if key not in record and key != "kind":
            raise UserError(f"{path}: {key} is missing")
    if kind == "translation":
        for key in ("vocabulary", "positions"):
            sizes = record[key]
            if not isinstance(sizes, dict) or not all(
                isinstance(sizes.get(side), int) for side in ("source", "target")
            ):
                raise UserError(f"{path}: {key} must give a whole number for source and target")
    return record, digest


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
        raise UserError(f"{path}: format_version {record['format_version']!r}; this program reads {FORMAT_VERSION}")
    return record, hashlib.sha256(content).hexdigest()


def check_facts(facts: Mapping[str, Any], kind: BundleKind) -> None:
    """Raises UserError where facts use a name of the bundle's own."""
    taken = sorted(set(facts) & set(STRUCTURE[kind]))
    if taken:
        raise UserError(f"bundle facts: {', '.join(taken)} cannot be facts; they describe the bundle itself")


def check_files(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Each listed file lies inside the bundle and is the one that was saved."""
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
    """{sha256, bytes} of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "bytes": path.stat().st_size}


def listing(directory: Path) -> list[str]:
    """Every file below, as sorted relative names with /."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def synchronise(path: Path) -> None:
    """Make a file's or a directory's content survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_directory(new: Path, directory: Path) -> None:
    """Rename `new` to `directory`. One that is there is moved aside first and removed last, so never half a bundle."""
    if not directory.exists():
        new.rename(directory)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
    directory.rename(aside / "bundle")
    new.rename(directory)
    shutil.rmtree(aside)
