"""The command `shard`: turns a corpus into a shard directory with its manifest.

In order: find the files, clean, plan and pack them, write the manifest. Parallel corpora, text of one language
and labelled texts have a middle part each, `parallel`, `monolingual` and `labelled`. Every stage stores its results in
the scratch folder, so the same command resumes after a kill. Blocks and shards are fixed before any task starts, so any
number of workers writes the same bytes.
"""

import contextlib
import logging
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.conf.compose import fingerprint, plain
from dragoman.model.errors import UserError
from dragoman.model.ranges import check_ranges
from dragoman.model.shards.manifest import (
    MANIFEST,
    Manifest,
    has_manifest,
    manifest_hash,
    read_manifest,
    write_manifest,
)
from dragoman.model.shards.remote import publish
from dragoman.model.shards.verify import shard_files, verify
from dragoman.model.text.tags import check_pieces
from dragoman.pipelines.config import SHARDING, Config
from dragoman.pipelines.corpus.clean.sample_check import check_training_files, vocabulary_of
from dragoman.pipelines.corpus.labelled import make_labelled
from dragoman.pipelines.corpus.making import Sharding
from dragoman.pipelines.corpus.monolingual import make_monolingual
from dragoman.pipelines.corpus.pack.report import table
from dragoman.pipelines.corpus.parallel import make_parallel
from dragoman.pipelines.corpus.read.built_in import BUILT_IN, built_in_sources, check_built_in
from dragoman.pipelines.corpus.read.cutting import settle_auto_cut
from dragoman.pipelines.corpus.read.given_tokenizer import find_tokenizer
from dragoman.pipelines.corpus.read.identity import difference, identity
from dragoman.pipelines.corpus.read.labelled import labelled_sources
from dragoman.pipelines.corpus.read.parts import Part, all_tags, parts_of, sources_of_parts
from dragoman.pipelines.corpus.read.records import encodings_of
from dragoman.pipelines.corpus.read.remote_files import with_local_files
from dragoman.pipelines.corpus.read.samples import as_lines
from dragoman.pipelines.corpus.read.scratch import claim_directory, clear, clear_scratch, open_scratch
from dragoman.pipelines.corpus.read.sources import Source, sources_of
from dragoman.pipelines.corpus.settings import CorpusConfig
from dragoman.pipelines.corpus.sharded import shard_command
from dragoman.pipelines.corpus.sizes import BY_SIZE
from dragoman.pipelines.tracking.sharding import record_sharding

logger = logging.getLogger(__name__)
REWRITTEN = ("labelled", "webdataset")  # formats whose files are rewritten as lines
MAKERS = {"text": make_monolingual, "labelled": make_labelled}  # other formats are of two languages
FOUND = {  # unfinished shards in the directory -> what is logged
    "continued": "going on with the unfinished shards in {directory}",
    "replaced": "starting anew: the unfinished shards in {directory} were of another corpus or configuration",
}


@dataclass
class ShardResult:
    """The shards that `shard` made or found."""

    directory: Path
    manifest: Manifest
    manifest_hash: str
    seconds: float
    found: bool  # the shards existed already
    doubts: list[str]  # about the corpus


def shard(config: Config) -> ShardResult:
    """Makes the shard directory of `config`, resumes a half-made one, or finds it finished.

    Raises UserError: a problem of the corpus or its files, named; or the directory holds other shards.
    """
    began = time.monotonic()
    directory = config.shard_dir
    sharding = find_input(config, directory)
    with claim_directory(directory), _name_folder(directory):
        finished = _is_finished(sharding, config.paths.shards)
        if not finished:
            _make(sharding)
        clear_scratch(directory)
        shutil.rmtree(samples_of(directory), ignore_errors=True)
        return ShardResult(
            directory,
            read_manifest(directory),
            manifest_hash(directory),
            time.monotonic() - began,
            finished,
            list(sharding.doubts),
        )


def _make(sharding: Sharding) -> None:
    """Makes the shards, or resumes half-made ones, and publishes them if their folder stands for an address."""
    directory, form = sharding.directory, sharding.corpus.format
    state = open_scratch(directory, sharding.config_hash)
    if state != "new":
        logger.info(FOUND[state].format(directory=directory))
    if sharding.given and form != "labelled":
        sharding.given.store(directory, sharding.scratch)
    with contextlib.nullcontext() if state == "continued" else _traceless(directory):
        manifest = MAKERS.get(form, make_parallel)(sharding)
    write_manifest(directory, manifest)
    publish(directory, MANIFEST, shard_files(manifest), sharding.scratch)


def find_input(config: Config, directory: Path) -> Sharding:
    """Fetches, finds and checks the files of the corpus, its models and its tokenizer; returns the sharding into
    `directory`."""
    corpus, tokenizer, pair, languages = config.corpus, config.tokenizer, config.pair, config.languages
    form = corpus.format
    check_ranges("corpus", corpus)
    _check_rules(corpus, len(languages))
    encodings_of(corpus)
    parts = parts_of(corpus, pair, tokenizer)
    corpus, sources = _find_sources(corpus, pair, parts, samples_of(config.shard_dir), config.paths.cache)
    learned = tokenizer.type in ("bpe", "unigram") and not tokenizer.same_as  # others take what is there
    pieces = tokenizer.vocabulary if learned else 0
    doubts = [] if form == BUILT_IN else check_training_files(corpus, sources, pair, pieces)
    for doubt in doubts:
        logger.warning(doubt)
    if tokenizer.vocabulary == BY_SIZE:
        tokenizer = replace(tokenizer, vocabulary=vocabulary_of(sources, config.shard_dir))
    given = find_tokenizer(tokenizer, languages, config.paths.local, config.bundle_dir)
    if given:
        check_pieces(given.pair.source, all_tags(parts), f"tokenizer.same_as={tokenizer.same_as}")
        tokenizer = given.settings
    corpus = settle_auto_cut(corpus, sources, tokenizer.type)
    values = identity(replace(corpus, format=form), tokenizer, config.shards, pair, config.seed, sources)
    return Sharding(
        *(directory, corpus, tokenizer, config.shards, config.cluster, config.seed),
        *(languages, sources, values, parts, given, doubts),
    )


def _check_rules(corpus: CorpusConfig, sides: int) -> None:
    """Raises UserError for rules of pairs that are given for records of another kind."""
    for rule in ("script", "language"):
        if getattr(corpus.clean, rule) and (sides < 2 or corpus.format == "labelled"):
            raise UserError(f"corpus.clean.{rule}=true: judges the sides of a pair, and this corpus has none")


def _find_sources(
    corpus: CorpusConfig, pair: str, parts: Sequence[Part], samples: Path, cache: str
) -> tuple[CorpusConfig, list[Source]]:
    """Returns the files of the corpus, those at an address fetched, and the corpus that they are of.

    `samples`: the folder for files that are rewritten as lines.
    """
    if corpus.format == BUILT_IN:
        check_built_in(corpus, pair)
        with _traceless_samples(samples):
            return corpus, built_in_sources(corpus, pair, samples)
    if parts:
        return corpus, sources_of_parts(parts, cache)
    corpus = with_local_files(corpus, pair, cache)
    with _traceless_samples(samples) if corpus.format in REWRITTEN else contextlib.nullcontext():
        if corpus.format == "labelled":
            return corpus, labelled_sources(corpus, pair, samples)
        if corpus.format == "webdataset":
            corpus = as_lines(corpus, pair, samples)
    return corpus, sources_of(corpus, pair)


def samples_of(directory: Path) -> Path:
    """Returns the folder of a corpus that is rewritten as lines, beside the shards."""
    return directory.parent / f".{directory.name}.samples"


@contextlib.contextmanager
def _name_folder(directory: Path) -> Iterator[None]:
    """Adds the folder to the error of a failed write (a full disk), which the system's message lacks."""
    try:
        yield
    except OSError as problem:
        if problem.filename is None:
            problem.filename = str(directory)
        raise


@contextlib.contextmanager
def _traceless(directory: Path) -> Iterator[None]:
    """Deletes the files of a refused command. (A kill leaves them, and the same command resumes.)"""
    try:
        yield
    except UserError:
        clear(directory)
        with contextlib.suppress(OSError):
            directory.rmdir()  # fails unless it is empty
        raise


@contextlib.contextmanager
def _traceless_samples(folder: Path) -> Iterator[None]:
    """Deletes samples as lines likewise; a folder that existed before may belong to another running command."""
    new = not folder.exists()
    try:
        yield
    except UserError:
        if new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _is_finished(sharding: Sharding, shards: str) -> bool:
    """Returns True if the directory, `paths.shards` as `shards` gives it, holds exactly these shards, complete."""
    directory = sharding.directory
    if not has_manifest(directory):
        return False
    there = read_manifest(directory)
    if there.config_hash != sharding.config_hash:
        raise UserError(
            f"paths.shards={directory}: holds shards of another corpus or configuration "
            f"({difference(there.config, sharding.values)}); delete the folder, or make these beside them: "
            f"{shard_command(beside=shards)}"
        )
    if sharding.shards.verify:
        logger.info(f"{verify(directory)} files agree with their sha256")
    return True


def task(config: Config) -> int:
    """Shards, prints the result, and records it as its own run."""
    result = shard(config)
    sys.stdout.write(table(result.directory, result.manifest, result.manifest_hash, result.seconds, result.found))
    for doubt in result.doubts:
        logger.warning(doubt)
    record(config, result)
    return 0


def record(config: Config, result: ShardResult) -> None:
    """Records a run of kind `shard`, named by the manifest's hash, once; trainings on these shards link to it.

    It has only the sections that a sharding reads.
    """
    values = {key: value for key, value in plain(config).items() if key in SHARDING}
    runs = config.paths.local(config.paths.runs)
    record_sharding(config.tracking, runs, values, fingerprint(values), result.directory)
