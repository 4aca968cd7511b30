"""The command `shard`: turns a corpus into a shard directory with its manifest.

In order: fetch, find the files, clean, plan and pack them, write the manifest. Parallel corpora, text of one language
and labelled texts have a middle part each, `parallel`, `monolingual` and `labelled`. Every stage stores its results in
the scratch folder, so the same command resumes after a kill. Blocks and shards are fixed before any task starts, so any
number of workers writes the same bytes.
"""

import contextlib
import dataclasses
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.conf.compose import fingerprint, plain
from dragoman.model.errors import UserError
from dragoman.model.runs.paths import TRAINING
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
from dragoman.model.storage.retry import Patience
from dragoman.model.text.hashed_texts import HashedTexts, read
from dragoman.model.text.tags import check_pieces
from dragoman.pipelines.config import SHARDING, Config
from dragoman.pipelines.corpus.clean.first_look import look
from dragoman.pipelines.corpus.clean.rules import check_rules
from dragoman.pipelines.corpus.clean.scores import GivenScorers, find_scorers
from dragoman.pipelines.corpus.labelled import make_labelled
from dragoman.pipelines.corpus.making import Sharding
from dragoman.pipelines.corpus.monolingual import make_monolingual
from dragoman.pipelines.corpus.pack.report import table
from dragoman.pipelines.corpus.parallel import make_parallel
from dragoman.pipelines.corpus.read import labelled
from dragoman.pipelines.corpus.read.built_in import built_in_sources, check_built_in, is_built_in
from dragoman.pipelines.corpus.read.cutting import settle_auto_cut
from dragoman.pipelines.corpus.read.fetch import fetch
from dragoman.pipelines.corpus.read.given_tokenizer import GivenTokenizer, find_tokenizer
from dragoman.pipelines.corpus.read.identity import difference, identity
from dragoman.pipelines.corpus.read.parts import Part, all_tags, parts_of, sources_of_parts
from dragoman.pipelines.corpus.read.records import encodings_of
from dragoman.pipelines.corpus.read.remote_files import with_local_files
from dragoman.pipelines.corpus.read.samples import as_lines
from dragoman.pipelines.corpus.read.scratch import claim_directory, clear, clear_scratch, open_scratch
from dragoman.pipelines.corpus.read.sources import Source, sources_of
from dragoman.pipelines.corpus.rule_cost import explain, with_rule
from dragoman.pipelines.corpus.sharded import shard_command
from dragoman.pipelines.corpus.sizes import BY_SIZE, vocabulary_of
from dragoman.pipelines.tracking.lineage import record_sharding

logger = logging.getLogger(__name__)
MAKERS = {"text": make_monolingual, "labelled": make_labelled}  # other formats are of two languages


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
    found_input = find_input(config)
    config, values, given_tokenizer = found_input.config, found_input.values, found_input.given
    directory = config.shard_dir
    config_hash = fingerprint(values)
    with claim_directory(directory), _name_folder(directory):
        finished = _is_finished(directory, values, config)
        if not finished:
            scratch, state = open_scratch(directory, config_hash)
            if state != "new":
                logger.info(_STATES[state].format(directory=directory))
            if given_tokenizer and config.corpus.format != "labelled":
                given_tokenizer.place(directory, scratch)
            make = MAKERS.get(config.corpus.format, make_parallel)
            with contextlib.nullcontext() if state == "continued" else _traceless(directory):
                manifest = make(found_input.sharding(directory, scratch))
            write_manifest(directory, manifest)
            publish(directory, MANIFEST, shard_files(manifest), scratch)
        clear_scratch(directory)
        shutil.rmtree(samples_of(directory), ignore_errors=True)
        return ShardResult(
            directory,
            read_manifest(directory),
            manifest_hash(directory),
            time.monotonic() - began,
            bool(finished),
            found_input.doubts,
        )


@dataclass(frozen=True)
class Input:
    """The input of a sharding, found and checked, and what identifies its result."""

    config: Config  # with the settings that the input settles
    sources: list[Source]
    parts: tuple[Part, ...]
    scorers: GivenScorers | None
    given: GivenTokenizer | None
    values: dict[str, Any]
    doubts: list[str]  # about the corpus, told at the beginning and at the end

    def sharding(self, directory: Path, scratch: Path) -> Sharding:
        config, sources = self.config, self.sources
        own = self.given.pair if self.given else None
        hashed, ancestors = fingerprint(self.values), tuple(_ancestors(self.given, sources))
        return Sharding(
            *(config, directory, scratch, sources, config.languages, self.values, hashed),
            *(self.parts, self.scorers, own, ancestors),
        )


def _ancestors(tokenizer: GivenTokenizer | None, sources: Sequence[Source]) -> Iterator[HashedTexts]:
    """Yields the texts behind the given tokenizer, and behind files of training that a model wrote (`synthesize`)."""
    if tokenizer is not None:
        yield tokenizer.texts
    folders = {file.parent for source in sources if source.split == "train" for file in source.files}
    yield from (read(folder / TRAINING) for folder in sorted(folders) if (folder / TRAINING).is_file())


def find_input(config: Config) -> Input:
    """Fetches and finds the files of the corpus, its models and its tokenizer."""
    languages = config.languages
    check_rules(config.corpus, config.corpus.format not in ("text", "labelled") and len(languages) > 1)
    fetch(config.corpus.fetch, config.corpus.root)
    corpus, form = config.corpus, config.corpus.format
    encodings_of(corpus)
    built_in = is_built_in(corpus)
    if built_in:
        check_built_in(corpus, config.pair)
    samples = samples_of(config.shard_dir)
    paths, parts = config.paths, parts_of(corpus, config.pair, config.tokenizer)
    if not built_in and not parts:
        corpus = with_local_files(corpus, config.pair, paths.cache, Patience(paths.patience))
        if form == "webdataset":
            with _traceless_samples(samples):
                corpus = as_lines(corpus, config.pair, samples)
    sources: list[Source] = []
    if form == "labelled" or built_in:
        with _traceless_samples(samples):
            write = built_in_sources if built_in else labelled.labelled_sources
            sources = write(corpus, config.pair, samples)
    elif parts:
        sources = sources_of_parts(parts, paths.cache, Patience(paths.patience))
    else:
        sources = sources_of(corpus, config.pair)
    learned = config.tokenizer.type in ("bpe", "unigram") and not config.tokenizer.same_as  # others take what is there
    pieces = config.tokenizer.vocabulary if learned else 0
    doubts = [] if built_in else look(corpus, sources, config.pair, pieces)
    for doubt in doubts:
        logger.warning(doubt)
    scorers = find_scorers(corpus.clean.scores, [part.pair for part in parts] or [config.pair], config.bundle_dir)
    if scorers:
        corpus = dataclasses.replace(corpus, clean=dataclasses.replace(corpus.clean, scores=list(scorers.digests)))
    if config.tokenizer.vocabulary == BY_SIZE:
        fitting = vocabulary_of(sources, config.shard_dir)
        config = dataclasses.replace(config, tokenizer=dataclasses.replace(config.tokenizer, vocabulary=fitting))
    given_tokenizer = find_tokenizer(config.tokenizer, languages, config.paths.local, config.bundle_dir)
    if given_tokenizer:
        check_pieces(given_tokenizer.pair.source, all_tags(parts), f"tokenizer.same_as={config.tokenizer.same_as}")
        config = dataclasses.replace(config, tokenizer=given_tokenizer.settings)
    config = dataclasses.replace(config, corpus=settle_auto_cut(corpus, sources, config.tokenizer.type))
    values = identity(
        dataclasses.replace(config.corpus, format=form),
        config.tokenizer,
        config.shards,
        config.pair,
        config.seed,
        sources,
    )
    return Input(config, sources, parts, scorers, given_tokenizer, values, doubts)


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


_STATES = {
    "continued": "going on with the unfinished shards in {directory}",
    "replaced": "starting anew: the unfinished shards in {directory} were of another corpus or configuration",
}


def _is_finished(directory: Path, values: dict[str, Any], config: Config) -> bool:
    """Returns True if the directory holds exactly these shards, complete."""
    if not has_manifest(directory):
        return False
    there = read_manifest(directory)
    if there.config_hash != fingerprint(values):
        raise UserError(
            f"paths.shards={directory}: holds shards of another corpus or configuration "
            f"({difference(there.config, values)}); delete the folder, or make these beside them: "
            f"{shard_command(beside=config.paths.shards)}"
        )
    if config.shards.verify:
        logger.info(f"{verify(directory)} files agree with their sha256")
    return True


def task(config: Config) -> int:
    """Shards, prints the result, and records it as its own run; or says what a rule costs (`shards.explain`)."""
    rule = config.shards.explain
    if rule is not None:
        config = dataclasses.replace(config, corpus=with_rule(config.corpus, rule))
        with tempfile.TemporaryDirectory(prefix="dragoman-explain-") as name, _name_folder(Path(name)):
            sys.stdout.write(explain(find_input(config).sharding(Path(name), Path(name)), rule))
        shutil.rmtree(samples_of(config.shard_dir), ignore_errors=True)
        return 0
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
