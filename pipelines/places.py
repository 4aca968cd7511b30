"""The text keys of the configuration that name files, and the files that they name.

One table says what the code does with every text key. A test walks the typed configuration and fails for a key that is
missing from the table. `find_places` resolves the values as the commands do: placeholders filled, patterns expanded,
links followed. The job service, which runs commands for others, compares the result with their permissions.
"""

import itertools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from dragoman.model.errors import UserError
from dragoman.model.schema import build
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.corpus.read.built_in import BUILT_IN
from dragoman.pipelines.corpus.read.file_names import SPLITS, fill_pattern
from dragoman.pipelines.corpus.read.parts import parts_of
from dragoman.pipelines.corpus.settings import CorpusConfig
from dragoman.pipelines.evaluation.comparison_settings import model_file


class Kind(Enum):
    """The use that the code makes of a key's text."""

    PLAIN = "plain"  # never opens it
    SERVICE = "service"  # contacts or writes places that the program's operator has set
    ROOT = "root"  # takes it as the folder of everything
    CACHE = "cache"  # stores copies there
    FOLDER = "folder"  # looks for the files of other keys below it
    SHARDS = "shards"  # a shard directory
    RUNS = "runs"  # the folder of all runs
    CORPUS = "corpus"  # reads files below corpus.root; the text may have placeholders and be a pattern
    SETS = "sets"  # reads files below vectors.evaluate.root
    TEXTS = "texts"  # reads a file, or a folder of shards
    REFERENCE = "reference"  # reads a bundle: a path, a run's name, MODEL@ALIAS or MODEL/VERSION
    MODELS = "models"  # as above, or a file of conf/model
    OUTPUT = "output"  # writes a folder


SIDES = ("source", "target", "file")
# Keys of all dataclasses that the pipelines' commands read. `.*` stands for any key of a dictionary.
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("name", "pair", "corpus.name", "corpus.languages.*", "corpus.columns"), Kind.PLAIN),
    **dict.fromkeys(("corpus.fields.*", "corpus.encoding", "corpus.between"), Kind.PLAIN),
    **dict.fromkeys(("tokenizer.name", "model.*", "model.name", "vectors.evaluate.words"), Kind.PLAIN),
    **dict.fromkeys(("alignment.head", "evaluate.split", "evaluate.tokenize", "compare.name"), Kind.PLAIN),
    **dict.fromkeys(("compare.recipes.*.*", "compare.networks.*.*", "compare.model.*"), Kind.PLAIN),
    **dict.fromkeys(("compare.maps", "tracking.experiment", "tracking.parent"), Kind.PLAIN),
    **dict.fromkeys(("registry.name", "registry.alias", "promote.version", "promote.split"), Kind.PLAIN),
    **dict.fromkeys(("promote.reason", "cluster.workers", "unpack.split", "train.freeze"), Kind.PLAIN),
    **dict.fromkeys((f"train.lora.{key}" for key in ("targets", "parts", "whole")), Kind.PLAIN),
    **dict.fromkeys(("cluster.address", "tracking.uri", "tracking.artifacts", "paths.mlflow"), Kind.SERVICE),
    "paths.owner": Kind.PLAIN,
    "paths.root": Kind.ROOT,
    "paths.cache": Kind.CACHE,
    "paths.shards": Kind.SHARDS,
    "paths.runs": Kind.RUNS,
    "corpus.root": Kind.FOLDER,
    "vectors.evaluate.root": Kind.FOLDER,
    "corpus.parts.root": Kind.FOLDER,
    **dict.fromkeys((f"corpus.parts.{key}" for key in ("name", "pair", "tags", "columns")), Kind.PLAIN),
    **dict.fromkeys(("corpus.parts.fields.*", "corpus.parts.languages.*"), Kind.PLAIN),
    **{
        f"{section}.{split}.{side}": Kind.CORPUS
        for section in ("corpus", "corpus.parts")
        for split in SPLITS
        for side in SIDES
    },
    "vectors.evaluate.similarity": Kind.SETS,
    "vectors.evaluate.analogies": Kind.SETS,
    **dict.fromkeys(("tokenizer.same_as", "train.init_from"), Kind.REFERENCE),
    **dict.fromkeys(("embeddings.source", "embeddings.target"), Kind.REFERENCE),
    **dict.fromkeys(("bundle", "evaluate.against"), Kind.REFERENCE),
    "models": Kind.MODELS,
    "synthesize.scorer": Kind.REFERENCE,
    "output": Kind.OUTPUT,
}
USES_SHARDS = {"train", "evaluate", "compare", "promote", "unpack", "synthesize"}  # commands that read paths.shards
REWRITTEN = ("webdataset", "labelled", BUILT_IN)  # formats of a corpus that is written as lines beside the shards
LONGEST_NAME, LONGEST_PATH = 255, 4095  # bytes, on Linux
# A reference that need not be a path: a run, MODEL@ALIAS, MODEL/3.
NAME = re.compile(r"(models:/)?[\w+-][\w.+-]*([@/][\w.+-]+)?")
PATTERN = re.compile(r"[*?\[]")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

# inside: must be in a readable folder. read, write: is opened with everything below it. start: the folder in which a
# pattern begins. maybe: is opened if it exists. all: everything below it may change. record: a run is made there, named
# after the result.
Use = Literal["root", "cache", "inside", "start", "read", "write", "maybe", "all", "record"]


@dataclass(frozen=True)
class Place:
    """A file or folder that a value leads to."""

    key: str
    value: str  # as given
    path: Path  # absolute, links followed
    use: Use


def texts(value: Any) -> Iterator[str]:
    """Yields every text and number of a value, also from nested lists."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)
    elif value is not None:
        yield str(value)


def values_of(values: Mapping[str, Any], *kinds: Kind) -> Iterator[tuple[str, Any]]:
    """Yields (dotted key, its composed value) of every key of these kinds; a missing key has the value None."""
    for key, kind in KINDS.items():
        if kind in kinds:
            yield key, _at(values, key.split("."))


def find_places(verb: str, values: Mapping[str, Any], named: bool = True) -> Iterator[Place]:
    """Yields every place to which the composed `values` lead the command, relative to the current folder.

    A pattern's start folder comes before its matches, so a caller that refuses the folder expands nothing. `named`: the
    command line names a run, and `sync` works only on that one.

    Raises UserError: an address where a file is expected, or text that is no file name.
    """
    uses: dict[str, Use] = {"root": "root", "cache": "cache"}
    for name, use in uses.items():
        text = str(values["paths"].get(name))
        yield _place(f"paths.{name}", text, text, use)
    yield from _shards(verb, values)
    yield from _runs(verb, values, named)
    for key, folder in values_of(values, Kind.FOLDER):
        for text in texts(folder):
            yield _place(key, text, text, "inside")
    yield from _corpus(values)
    yield from _sets(values)
    for key, value in values_of(values, Kind.REFERENCE, Kind.MODELS):
        for text in texts(value):
            if not (KINDS[key] is Kind.MODELS and model_file(text)):
                yield from _reference(key, text, Path(str(values["paths"].get("runs"))))
    for key, value in values_of(values, Kind.OUTPUT):
        for text in texts(value):
            yield _place(key, text, text, "write")


def _shards(verb: str, values: Mapping[str, Any]) -> Iterator[Place]:
    shards, runs = (str(values["paths"].get(name)) for name in ("shards", "runs"))
    use: Use = "write" if verb == "shard" else "read" if verb in USES_SHARDS else "inside"
    yield _place("paths.shards", shards, shards, use)
    if verb == "shard":
        yield _place("paths.runs", runs, runs, "record")
        if _at(values, ["corpus", "format"]) in REWRITTEN:
            whole = Path(os.path.normpath(shards))
            yield _place("paths.shards", shards, whole.parent / f".{whole.name}.samples", "write")


def _runs(verb: str, values: Mapping[str, Any], named: bool) -> Iterator[Place]:
    """Yields the folder of runs, and the runs that the command works on."""
    text, name = str(values["paths"].get("runs")), str(values.get("name") or "")
    runs = Path(text)
    yield _place("paths.runs", text, runs, "inside")
    if verb == "train" or (verb == "sync" and named):
        yield _place("name", name, runs / name, "write")
    elif verb == "sync":
        yield _place("paths.runs", text, runs, "all")
    elif verb == "evaluate" and not values.get("bundle"):
        yield _place("name", name, runs / name, "read")
    elif verb == "compare":
        own = str(_at(values, ["compare", "name"]))
        yield _place("compare.name", own, runs / own, "write")
        for network in filter(None, map(model_file, texts(values.get("models")))):
            yield _place("compare.name", own, runs / f"{own}-{network}", "write")


def _corpus(values: Mapping[str, Any]) -> Iterator[Place]:
    """Yields the files of a corpus and of the parts of a mix; for a pattern, its start folder and every match."""
    if not any(texts([value for _, value in values_of(values, Kind.CORPUS)])):
        return
    config, pair = build(CorpusConfig, values["corpus"], "corpus"), str(values.get("pair"))
    yield from _files("corpus", config, pair)
    for part in parts_of(config, pair, build(TokenizerConfig, values["tokenizer"], "tokenizer")):
        yield from _files("corpus.parts", part.corpus, part.pair)


def _files(section: str, config: CorpusConfig, pair: str) -> Iterator[Place]:
    folder = _expanded(f"{section}.root", config.root) if config.root else Path()
    for split, side in itertools.product(SPLITS, SIDES):
        key = f"{section}.{split}.{side}"
        for name in texts(getattr(getattr(config, split), side)):
            filled = fill_pattern(config, pair, name) if "{" in name else name
            path = folder / _expanded(key, filled)
            if not PATTERN.search(filled):
                yield _place(key, name, path, "read")
                continue
            parts = path.parts
            fixed = next(number for number, part in enumerate((*parts, "*")) if PATTERN.search(part))
            start = Path(*parts[:fixed])
            yield _place(key, name, start, "start")
            for match in (path, *start.glob(str(Path(*parts[fixed:])))):
                yield _place(key, name, match, "read")


def _sets(values: Mapping[str, Any]) -> Iterator[Place]:
    root = _at(values, ["vectors", "evaluate", "root"])
    for key, names in values_of(values, Kind.SETS):
        for name in texts(names) if root is not None else ():
            yield _place(key, name, Path(str(root)) / name, "read")


def _reference(key: str, text: str, runs: Path) -> Iterator[Place]:
    """Yields the places where `Config.bundle_dir` looks for a bundle before it asks the registry."""
    if not NAME.fullmatch(text) or ".." in text:
        yield _place(key, text, text, "read")
    elif not text.startswith("models:/"):
        for path in (Path(text), runs / text):
            yield _place(key, text, path, "maybe")


def _place(key: str, value: str, path: str | Path, use: Use) -> Place:
    """Returns the place of a value. Raises UserError: an address, or text that is no path."""
    expanded = _expanded(key, str(path))
    _refuse_address(key, value)
    try:
        whole, real = Path(os.path.normpath(Path.cwd() / expanded)), expanded.resolve()
    except (ValueError, OSError, RuntimeError):
        raise UserError(f"{key}={_short(value)}: is no path") from None
    if len(os.fsencode(whole)) > LONGEST_PATH or any(len(os.fsencode(part)) > LONGEST_NAME for part in whole.parts):
        raise UserError(f"{key}={_short(value)}: is too long for a path: {LONGEST_NAME} bytes between two slashes")
    # /proc/self/root is a process's own view of the files, and differs for the job; devices are no corpora
    return Place(key, value, whole if whole.parts[1:2] in (("proc",), ("dev",), ("sys",)) else real, use)


def _expanded(key: str, text: str) -> Path:
    _refuse_address(key, text)
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~NOBODY
        return Path(text)


def _refuse_address(key: str, text: str) -> None:
    if SCHEME.match(text):
        raise UserError(f"{key}={_short(text)}: a job names no server and no command; give files by their paths")


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _at(values: Any, parts: list[str]) -> Any:
    """Returns the value of a dotted key; for a list of sections the list of their values."""
    for number, part in enumerate(parts):
        if isinstance(values, list | tuple):
            return [_at(value, parts[number:]) for value in values]
        if not isinstance(values, Mapping):
            return None
        values = values.get(part)
    return values
