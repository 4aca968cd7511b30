"""Sharding of text of one language: the steps between the found files and the manifest.

In order: unpack and index the files, clean them block by block, plan every record, join phrases pass by pass, count or
train the tokenizer, write the shards. Stages and tasks are as for parallel corpora.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest, ShardsConfig
from dragoman.model.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import check_config, draw_lines, train
from dragoman.model.text.words import count_units, most_frequent, rules_of
from dragoman.pipelines.cluster.map import all_of, here, workers
from dragoman.pipelines.corpus.clean.block import load_facts
from dragoman.pipelines.corpus.clean.text_block import TextCleaningTask, clean_text_block
from dragoman.pipelines.corpus.making import Sections, Sharding, check_kept
from dragoman.pipelines.corpus.pack.counting import merged_files, read_run, write_run
from dragoman.pipelines.corpus.pack.packing import Piece, kept_lines, take_pairs
from dragoman.pipelines.corpus.pack.phrases import (
    JoiningTask,
    PairCountingTask,
    check_phrases,
    count_pairs,
    join_block,
    write_phrases,
)
from dragoman.pipelines.corpus.pack.report import source_records
from dragoman.pipelines.corpus.pack.spreading import Nodes
from dragoman.pipelines.corpus.plan.plan import Plan
from dragoman.pipelines.corpus.plan.text_plan import make_text_plan
from dragoman.pipelines.corpus.read.cutting import fill_auto_cut
from dragoman.pipelines.corpus.read.records import encodings_of
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.read.text_staging import stage_text, text_blocks, text_staging_tasks
from dragoman.pipelines.settings import ClusterConfig

TASK_BLOCKS = 8  # counted together, for fewer and larger runs


@dataclass(frozen=True)
class CountingTask:
    """Counts the units in some adjacent blocks' training text."""

    pieces: tuple[Piece, ...]
    clean: Path  # the folder of clean blocks
    plan: Path  # the folder of codes
    tokenizer: TokenizerConfig
    run: Path  # output: the counts
    language: str = ""


def block_groups(plan: Plan) -> list[tuple[Piece, ...]]:
    """Returns all training text as groups of adjacent blocks."""
    pieces = [Piece(block, 0, count) for block, count in enumerate(plan.kept["train"]) if count]
    return [tuple(pieces[first : first + TASK_BLOCKS]) for first in range(0, len(pieces), TASK_BLOCKS)]


def counting_tasks(
    plan: Plan, clean: Path, tokenizer: TokenizerConfig, folder: Path, language: str = ""
) -> list[CountingTask]:
    """Returns one task per group of blocks."""
    folder.mkdir(exist_ok=True)
    return [
        CountingTask(pieces, clean, plan.folder, tokenizer, folder / f"{number:06d}.run", language)
        for number, pieces in enumerate(block_groups(plan))
    ]


def count_blocks(task: CountingTask) -> Path:
    """Counts unless that was done before; returns the run."""
    if not task.run.exists():
        counts: Counter[str] = Counter()
        for piece in task.pieces:
            texts = take_pairs(task.clean, task.plan, "train", piece)[0]
            counts.update(count_units(task.tokenizer, texts, task.language))
        write_run(task.run, sorted(counts.items()))
    return task.run


logger = logging.getLogger(__name__)

LINE_BYTES = 100  # assumed size of a line, to decide whether starting Ray pays
CHUNK_TOKENS = 1 << 17  # approximate size of a chunk: text records have any length, and a chunk is read at once
SHARD_CHUNKS = 128
TRAINING_CHARS = 50_000_000  # most text for training a subword tokenizer: records may be long
CHARS_A_TOKEN = 5


def make_monolingual(sharding: Sharding) -> Manifest:
    """Writes everything but the manifest, resuming existing work; returns the manifest.

    Raises UserError: a file that cannot be read, no text left, or nothing to build a vocabulary from.
    """
    config, scratch, corpus, language = sharding.config, sharding.scratch, sharding.config.corpus, sharding.languages[0]
    paragraphs, blank = corpus.records == "paragraph", corpus.blank == "keep"
    encodings = encodings_of(corpus)
    if blank and paragraphs:
        raise UserError("corpus.blank=keep: a blank line ends a paragraph; take corpus.records=line")
    check_config(config.tokenizer)
    check_phrases(corpus.phrases)
    clean = scratch / "clean"
    clean.mkdir(exist_ok=True)
    all_of(
        "reading files", stage_text, text_staging_tasks(sharding.sources, scratch, paragraphs, corpus.between), here()
    )
    blocks = text_blocks(sharding.sources, scratch)
    with workers(config.cluster, _bytes(blocks) // LINE_BYTES) as spread:
        nodes = Nodes(sharding.directory, spread, config.paths.cache_of_node)
        cluster = nodes.near
        tasks = [
            TextCleaningTask(block, corpus.clean, corpus.on_error, encodings, paragraphs, blank, scratch, clean)
            for block in blocks
        ]
        nodes.clean(clean_text_block, tasks)
        corpus = fill_auto_cut(corpus, _sum_of("records", len(blocks), clean))
        plan = make_text_plan(blocks, clean, scratch, corpus, config.seed)
        check_kept(plan, "corpus.train.file: no training text is left", "none, the files are empty")
        for number in range(corpus.phrases.passes):
            clean = _with_phrases(config, scratch, clean, plan, number, cluster, language)
        record = sharding.tokenizer_once(lambda: _tokenizer(config, clean, scratch, plan, cluster, language))
        sizes = shard_sizes(config.shards, config.tokenizer, _record_chars(len(blocks), scratch / "clean"))
        sources = source_records(sharding.sources, blocks, plan, {}, sharding.values)
        return sharding.pack(clean, plan, nodes, record, sizes, kind="monolingual", sources=sources)


def shard_sizes(config: ShardsConfig, tokenizer: TokenizerConfig, record_chars: float) -> ShardsConfig:
    """Returns the configured sizes, smaller for long records: a chunk of some CHUNK_TOKENS, a shard of SHARD_CHUNKS."""
    tokens = max(1.0, record_chars / (1 if tokenizer.type == "characters" else CHARS_A_TOKEN))
    chunk = min(config.chunk_records, 1 << (max(1, int(CHUNK_TOKENS / tokens)).bit_length() - 1))
    lines = max(1, min(config.shard_lines, chunk * SHARD_CHUNKS))
    return dataclasses.replace(config, chunk_records=chunk, shard_lines=lines)


def _bytes(blocks: Sequence[Block]) -> int:
    return sum(stop - start for block in blocks for start, stop in block.ranges)


def _record_chars(blocks: int, clean: Path) -> float:
    """Returns the mean number of characters in a record."""
    return _sum_of("characters", blocks, clean) / _sum_of("records", blocks, clean)


def _sum_of(fact: str, blocks: int, clean: Path) -> int:
    return sum(int(load_facts(clean, block)[fact]) for block in range(blocks))


def _with_phrases(
    config: Sections, scratch: Path, clean: Path, plan: Plan, number: int, cluster: ClusterConfig, language: str
) -> Path:
    """Runs one pass of phrases over all clean blocks; returns the folder of the new blocks."""
    rules, runs = rules_of(config.tokenizer, language), scratch / f"pairs-{number}"
    folder, phrases = scratch / f"phrases-{number}", scratch / f"phrases-{number}.txt"
    for each in (runs, folder):
        each.mkdir(exist_ok=True)
    if not phrases.exists():
        tasks = [
            PairCountingTask(
                pieces, clean, plan.folder, rules, runs / f"{index:06d}.words", runs / f"{index:06d}.pairs"
            )
            for index, pieces in enumerate(block_groups(plan))
        ]
        counted = sorted(all_of("counting pairs of words", count_pairs, tasks, cluster))
        words = merged_files([words for words, _ in counted], runs / "all.words")
        pairs = merged_files([pairs for _, pairs in counted], runs / "all.pairs")
        written = write_phrases(phrases, words, pairs, config.corpus.phrases, number)
        logger.info(f"phrases, pass {number + 1}: {written:,}")
    blocks = range(len(plan.kept["train"]))
    tasks_joining = [JoiningTask(block, clean, rules, phrases, folder) for block in blocks]
    all_of("joining phrases", join_block, tasks_joining, cluster)
    return folder


def _tokenizer(
    config: Sections, clean: Path, scratch: Path, plan: Plan, cluster: ClusterConfig, language: str
) -> TokenizerPair:
    """Builds the tokenizer from the training split: counts all of it, or trains on drawn lines."""
    settings = config.tokenizer
    if settings.type in ("words", "characters") and not settings.train_lines:
        tasks = counting_tasks(plan, clean, settings, scratch / "counts", language)
        runs = all_of(f"counting {settings.type}", count_blocks, tasks, cluster)
        counts = read_run(merged_files(sorted(runs), scratch / "counts" / "all.run"))
        tokenizer: Tokenizer = most_frequent(settings, counts, language)  # holds settings.vocabulary entries in memory
    else:
        lines = _drawn_lines(config, clean, scratch, plan)
        logger.info(f"training the tokenizer ({settings.name}) on {len(lines):,} of {plan.records('train'):,} records")
        tokenizer = train(settings, lines, language)
    return TokenizerPair(tokenizer, tokenizer)


def _drawn_lines(config: Sections, clean: Path, scratch: Path, plan: Plan) -> list[str]:
    """Draws as many training records as configured, or fewer if they are so long that the text would be too large."""
    most = max(1, int(TRAINING_CHARS / _record_chars(len(plan.kept["train"]), scratch / "clean")))
    number_of_lines = min(config.tokenizer.train_lines or most, most)
    return draw_lines(kept_lines(clean, plan, "train", 0), number_of_lines, config.seed)
