"""The word vectors that a verb uses: a bundle's directory, a run's name, or a registry reference; section `query`."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from dragoman.model.bundles.directory import CONFIG, bundle_kind
from dragoman.model.bundles.vectors import VectorsBundle, load_vectors
from dragoman.model.errors import UserError
from dragoman.model.ranges import Count, Range, Whole
from dragoman.model.runs.bundles import bundles, find_bundle
from dragoman.model.schema import NO_SETTING
from dragoman.model.word_vectors.embeddings import Method
from dragoman.services.models.home import Home
from dragoman.services.models.registry import ModelVersion, Registry, is_registered

logger = logging.getLogger(__name__)


@dataclass
class VectorsSource:
    """The source of word vectors; part of the section of every verb that uses them."""

    vectors: str | None = None  # models:/NAME@ALIAS, a bundle's directory, a run's name; null: the newest run's
    home: Home = field(default_factory=Home, kw_only=True, metadata=NO_SETTING)


@dataclass
class QueryConfig(VectorsSource):
    """The questions, the word vectors, and the format of answers."""

    sentence: str | None = None  # neighbours: the text in which the words are meant, also as query.in=TEXT
    texts: str | None = None  # with a sentence: lines or a directory of shards, whose words may be neighbours
    lines: Count = 2000  # of `texts`, from their beginning
    layer: Annotated[int, Range()] | None = None  # with a sentence: whose states, as embed.layer; null: the last
    picture: str | None = None  # with a sentence: a file for the word's uses as points; null: none
    k: Count = 10  # words per answer
    method: Method = "3cosadd"  # for analogies
    restrict: Whole = 0  # answers are among this many most frequent words; 0: all
    input: str | None = field(default=None, metadata=NO_SETTING)  # a file of words; null: standard input
    format: Literal["text", "json"] = field(default="text", metadata=NO_SETTING)
    on_error: Literal["raise", "skip"] = field(default="raise", metadata=NO_SETTING)


def open_vectors(source: VectorsSource, section: str) -> VectorsBundle:
    """Loads the word vectors that the key `vectors` of a verb's section names; without a name those of the newest run
    that has any, else the registry's newest.
    """
    key, reference = f"{section}.vectors", source.vectors
    if reference is None:
        directory, reference = _newest(source, key)
    else:
        directory = vectors_folder(source, section, reference)
    if bundle_kind(directory) == "translation":
        raise UserError(
            f"{key}: {reference} holds a translation model, not word vectors: serve it with "
            "dragoman serve bundle=..., use it with dragoman translate"
        )
    return load_vectors(directory)


def vectors_folder(source: VectorsSource, section: str, reference: str) -> Path:
    """Returns the directory of a bundle, of a run's bundle, or of a version in the registry."""
    if is_registered(reference):
        registry = Registry(source.home.tracking, Path(source.home.cache))
        return registry.fetch(registry.resolve(reference))
    runs = Path(source.home.runs)
    directory = find_bundle(reference, runs, Path(source.home.cache))
    if directory is not None:
        return directory
    names = sorted(path.parent.name for path in bundles(runs))
    raise UserError(
        f"{section}.vectors: {reference!r} is neither a bundle's directory nor models:/NAME@ALIAS nor a finished run "
        f"in {runs}. Runs: {', '.join(names) or 'none'}"
    )


def newest_bundle(runs: Path, fits: Callable[[str], bool]) -> Path | None:
    """Returns the newest run's bundle of a kind that fits."""
    newest = sorted(bundles(runs), key=lambda path: -(path / CONFIG).stat().st_mtime)
    return next((bundle for bundle in newest if fits(bundle_kind(bundle))), None)


def _newest(source: VectorsSource, key: str) -> tuple[Path, str]:
    """Returns the newest word vectors of the runs, else of the registry, and their name."""
    if bundle := newest_bundle(Path(source.home.runs), lambda kind: kind == "vectors"):
        logger.info("%s is not given: the word vectors of the newest run that has any, %s", key, bundle.parent.name)
        return bundle, bundle.parent.name
    registry = Registry(source.home.tracking, Path(source.home.cache))
    with contextlib.suppress(UserError):  # no registry here: none is found
        for newest in registry.list_versions("tags.bundle_kind = 'vectors'")[:1]:
            version = ModelVersion(newest.name, str(newest.version), str(newest.run_id or ""))
            logger.info("%s is not given: the registry's newest word vectors, %s", key, version)
            return registry.fetch(version), str(version)
    raise UserError(
        f"{key}: no word vectors in {source.home.runs} nor in the registry at {registry}; name them ({key}=PATH, RUN "
        "or models:/NAME@ALIAS), or train some: dragoman train experiment=word2vec corpus.train.file=FILE"
    )
