"""The command `shard`: turns a corpus into a shard directory with its manifest.

In order: fetch, find the files, unpack and index them, clean them block by block, check the alignment, plan every pair,
train the tokenizer, write the shards, write the manifest. Text of one language has its own middle part, see
`monolingual`. Every stage stores its results in the scratch folder, so the same command resumes after a kill. Blocks
and shards are fixed before any task starts, so any number of workers writes the same bytes.
"""

import contextlib
import dataclasses
import logging
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.compose import fingerprint, plain
from model.errors import UserError
from model.shards.manifest import (
    MANIFEST,
    Manifest,
    Split,
    has_manifest,
    manifest_hash,
    read_manifest,
    write_manifest,
)
from model.shards.remote import publish
from model.shards.verify import shard_files, verify
from model.storage.retry import Patience
from model.text.tokenizer import TokenizerPair
from model.text.tokenizers import load_pair, train_pair
from pipelines.cluster.map import all_of, here, workers
from pipelines.config import Config
from pipelines.corpus.clean.block import CleaningTask, clean_block
from pipelines.corpus.clean.misalignment import Misaligned
from pipelines.corpus.clean.misalignment_scan import ScanTask, describe, misaligned_runs, prepare_detector, scan_block
from pipelines.corpus.monolingual import make_monolingual
from pipelines.corpus.pack.packing import kept_lines, shard_tasks
from pipelines.corpus.pack.report import source_records, table
from pipelines.corpus.pack.spreading import Nodes
from pipelines.corpus.pack.texts import keep_training_text, write_texts
from pipelines.corpus.plan.leaks import RULES as LEAK_RULES
from pipelines.corpus.plan.leaks import leak_rules
from pipelines.corpus.plan.near_pairs import near_lines, near_pairs
from pipelines.corpus.plan.plan import Plan, make_plan
from pipelines.corpus.read.built_in import check_phrasebook, phrasebook_sources
from pipelines.corpus.read.cutting import fill_auto_cut, settle_auto_cut
from pipelines.corpus.read.fetch import fetch
from pipelines.corpus.read.given_tokenizer import find_tokenizer
from pipelines.corpus.read.identity import difference, identity
from pipelines.corpus.read.records import encodings_of
from pipelines.corpus.read.remote_files import with_local_files
from pipelines.corpus.read.samples import as_lines
from pipelines.corpus.read.scratch import claim_directory, clear, clear_scratch, open_scratch, read_json, write_json
from pipelines.corpus.read.sources import SPLITS, Source, sources_of
from pipelines.corpus.read.staging import Block, blocks_of, stage, staging_tasks
from pipelines.corpus.sharded import shard_command
from pipelines.settings import ClusterConfig
from pipelines.tracking.lineage import record_sharding

logger = logging.getLogger(__name__)
MANY_LEAKS = 0.1  # of the training pairs
READ = ("pair", "seed", "paths", "corpus", "tokenizer", "shards", "tracking", "cluster")  # sections of a sharding


@dataclass
class ShardResult:
    """The shards that `shard` made or found."""

    directory: Path
    manifest: Manifest
    manifest_hash: str
    seconds: float
    found: bool  # the shards existed already


def shard(config: Config) -> ShardResult:
    """Makes the shard directory of `config`, resumes a half-made one, or finds it finished.

    Raises:
        UserError: a problem of the corpus or its files, named; or the directory holds other shards.
    """
    began = time.monotonic()
    directory = config.shard_dir
    languages = config.languages
    fetch(config.corpus.fetch, config.corpus.root)
    built_in = config.corpus.format == "phrasebook"
    if built_in:
        check_phrasebook(config.corpus, config.pair)
    corpus, form = config.corpus, config.corpus.format
    samples = directory.parent / f".{directory.name}.samples"
    if not built_in:
        paths = config.paths
        corpus = with_local_files(corpus, config.pair, paths.cache, Patience(paths.patience))
        if form == "webdataset":
            with _traceless_samples(samples):
                corpus = as_lines(corpus, config.pair, samples)
    sources = [] if built_in else sources_of(corpus, config.pair)
    config = dataclasses.replace(config, corpus=settle_auto_cut(corpus, sources))
    given = find_tokenizer(config.tokenizer, languages, config.paths.local, config.bundle_dir)
    if given:
        config = dataclasses.replace(config, tokenizer=given.settings)
    values = identity(
        dataclasses.replace(config.corpus, format=form),
        config.tokenizer,
        config.shards,
        config.pair,
        config.seed,
        sources,
    )
    config_hash = fingerprint(values)
    with claim_directory(directory), _name_folder(directory):
        found = _is_finished(directory, values, config)
        if not found:
            scratch, state = open_scratch(directory, config_hash)
            if state != "new":
                logger.info(_STATES[state].format(directory=directory))
            if built_in:
                sources = phrasebook_sources(config.corpus, config.pair, config.seed, scratch)
            if given:
                given.place(directory, scratch)
            make = make_monolingual if config.corpus.format == "text" else _make
            with contextlib.nullcontext() if state == "continued" else _traceless(directory):
                manifest = make(config, directory, scratch, sources, languages, values, config_hash)
            write_manifest(directory, manifest)
            publish(directory, MANIFEST, shard_files(manifest), scratch)
        clear_scratch(directory)
        shutil.rmtree(samples, ignore_errors=True)
        return ShardResult(
            directory, read_manifest(directory), manifest_hash(directory), time.monotonic() - began, bool(found)
        )


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


def _make(
    config: Config,
    directory: Path,
    scratch: Path,
    sources: list[Source],
    languages: tuple[str, ...],
    values: dict[str, Any],
    config_hash: str,
) -> Manifest:
    encodings = encodings_of(config.corpus)
    clean, scans = scratch / "clean", scratch / "scans"
    for folder in (clean, scans):
        folder.mkdir(exist_ok=True)
    all_of("reading files", stage, staging_tasks(sources, scratch), here())
    blocks = blocks_of(sources, scratch)
    with workers(config.cluster, sum(block.lines for block in blocks)) as cluster:
        near = leak_rules(config.corpus) != "source"
        tasks = [
            CleaningTask(block, config.corpus.clean, config.corpus.on_error, clean, encodings, near) for block in blocks
        ]
        nodes = Nodes(directory, cluster, config.paths.cache_of_node)
        nodes.clean(clean_block, tasks)
        runs = _find_misaligned_runs(config, sources, blocks, clean, scratch, nodes.near)
        drop = runs if config.corpus.misaligned == "drop" else {}
        corpus = fill_auto_cut(config.corpus, sum(block.lines for block in blocks))
        plan = make_plan(blocks, clean, scratch, corpus, config.seed, drop)
        _check_kept(plan)
        _warn_of_leaks(plan)
        record = _tokenizers(config, directory, clean, scratch, plan, languages).describe()
        splits = [split for split in SPLITS if plan.records(split)]
        shards = [
            task
            for split in splits
            for task in shard_tasks(directory, clean, plan, split, record, config.shards, config_hash)
        ]
        entries = nodes.pack(shards)
    names = {entry.name: entry for entry in entries}
    texts = write_texts(directory, clean, plan, languages)
    if config.shards.keep_text:
        texts["train"] = keep_training_text(directory, clean, plan, languages)
    return Manifest(
        corpus=config.corpus.name,
        languages=list(languages),
        tokenizer=record,
        dtype=shards[0].dtype,  # type: ignore[arg-type]  # one of the two that the manifest allows
        splits={split: Split.of(e for name, e in names.items() if name.startswith(f"{split}-")) for split in splits},
        seed=config.seed,
        normalisation=config.corpus.clean.form,
        config_hash=config_hash,
        config=values,
        sources=source_records(sources, blocks, plan, runs, values),
        dropped=plan.dropped,
        warnings=[describe(source, run) for source in sources for run in runs.get(source.name, ())],
        texts=texts,
        near=near_lines(plan.folder, plan.kept),
        near_words={"mode": config.corpus.near_words, **near_pairs(plan.folder)},
    )


def _find_misaligned_runs(
    config: Config,
    sources: Sequence[Source],
    blocks: Sequence[Block],
    clean: Path,
    scratch: Path,
    cluster: ClusterConfig,
) -> dict[str, list[Misaligned]]:
    """Returns source name -> misaligned runs, and reports each to the user."""
    path = scratch / "misaligned.json"
    found = read_json(path)
    if found is None:
        detector = prepare_detector(blocks, clean, scratch / "guard.npz")
        runs: dict[str, list[Misaligned]] = {}
        if detector is not None:
            scans = scratch / "scans"
            tasks = [ScanTask(block, clean, scratch / "guard.npz", scans) for block in blocks]
            all_of("checking the alignment", scan_block, tasks, cluster)
            runs = misaligned_runs(detector, sources, blocks, clean, scans)
        found = {name: [dataclasses.asdict(run) for run in each] for name, each in runs.items()}
        write_json(path, found)
    runs = {name: [Misaligned(**run) for run in each] for name, each in found.items()}
    messages = [describe(source, run) for source in sources for run in runs.get(source.name, ())]
    if messages and config.corpus.misaligned == "raise":
        raise UserError("; ".join(messages) + " (corpus.misaligned=warn or drop goes on)")
    dropped = "; they are dropped" if config.corpus.misaligned == "drop" else "; corpus.misaligned=drop leaves them out"
    for message in messages:
        logger.warning(f"warning: {message}{dropped}")
    return runs


def _check_kept(plan: Plan) -> None:
    if not plan.records("train"):
        rules = ", ".join(f"{rule} {number:,}" for rule, number in plan.dropped["train"].items())
        raise UserError(f"corpus.clean: no training pair is left; dropped: {rules or 'none'}")


def _warn_of_leaks(plan: Plan) -> None:
    """Warns if most of a corpus made of sentence patterns are near-copies, which the guard would drop."""
    found = sum(plan.dropped["train"].get(rule, 0) for rule in LEAK_RULES)
    share = found / (found + plan.records("train"))
    if share > MANY_LEAKS:
        logger.warning(
            f"warning: corpus.leaks: {found:,} training pairs ({100 * share:.0f} %) say on a side what a held-out pair "
            f"says, and are dropped. Where sentences recur by design, corpus.leaks=source compares sources alone"
        )


def _tokenizers(
    config: Config, directory: Path, clean: Path, scratch: Path, plan: Plan, languages: tuple[str, ...]
) -> TokenizerPair:
    """Trains the tokenizers on the training split, once."""
    path = scratch / "tokenizer.json"
    record = read_json(path)
    if record is not None:
        with contextlib.suppress(UserError):  # its files are missing or broken: train again
            return load_pair(directory, record)
    logger.info(f"training the tokenizer ({config.tokenizer.name}) on {plan.records('train'):,} pairs")
    source, target = (kept_lines(clean, plan, "train", side) for side in (0, 1))
    pair = train_pair(config.tokenizer, source, target, config.seed, (languages[0], languages[1]))
    pair.save(directory)
    write_json(path, pair.describe())
    return pair


def task(config: Config) -> int:
    """Shards, prints the result, and records it as its own run."""
    result = shard(config)
    sys.stdout.write(table(result.directory, result.manifest, result.manifest_hash, result.seconds, result.found))
    record(config, result)
    return 0


def record(config: Config, result: ShardResult) -> None:
    """Records a run of kind `shard`, named by the manifest's hash, once; trainings on these shards link to it.

    It has only the sections that a sharding reads.
    """
    values = {key: value for key, value in plain(config).items() if key in READ}
    runs = config.paths.local(config.paths.runs)
    record_sharding(config.tracking, runs, values, fingerprint(values), result.directory)
