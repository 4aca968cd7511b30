"""Sharding of text of one language: the steps between the found files and the manifest.

In order: unpack and index the files, clean them block by block, plan every record, join phrases pass by pass, count or
train the tokenizer, write the shards. Stages and tasks are as for parallel corpora.
"""

import dataclasses
import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.shards.manifest import Manifest, ShardsConfig
from dragoman.model.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import check_config, draw_lines, train
from dragoman.model.text.words import count_units, most_frequent, rules_of
from dragoman.pipelines.cluster.map import all_of
from dragoman.pipelines.corpus.clean.block import load_facts
from dragoman.pipelines.corpus.making import Sharding, check_kept
from dragoman.pipelines.corpus.pack.counting import merged_files, read_run, write_run
from dragoman.pipelines.corpus.pack.packing import Piece, kept_lines, take_pairs
from dragoman.pipelines.corpus.pack.phrases import (
    JoiningTask,
    PairCountingTask,
    count_pairs,
    join_block,
    write_phrases,
)
from dragoman.pipelines.corpus.plan.plan import Plan
from dragoman.pipelines.corpus.plan.text_plan import make_text_plan
from dragoman.pipelines.corpus.read.cutting import fill_auto_cut
from dragoman.pipelines.settings import ClusterConfig

logger = logging.getLogger(__name__)
CHUNK_TOKENS = 1 << 17  # approximate size of a chunk: text records have any length, and a chunk is read at once
SHARD_CHUNKS = 128
TRAINING_CHARS = 50_000_000  # most text for training a subword tokenizer: records may be long
CHARS_A_TOKEN = 5
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


def count_blocks(task: CountingTask) -> Path:
    """Counts unless that was done before; returns the run."""
    if not task.run.exists():
        counts: Counter[str] = Counter()
        for piece in task.pieces:
            texts = take_pairs(task.clean, task.plan, "train", piece)[0]
            counts.update(count_units(task.tokenizer, texts, task.language))
        write_run(task.run, sorted(counts.items()))
    return task.run


def make_monolingual(sharding: Sharding) -> Manifest:
    """Writes everything but the manifest, resuming existing work; returns the manifest.

    Raises UserError: a file that cannot be read, no text left, or nothing to build a vocabulary from.
    """
    check_config(sharding.tokenizer)
    with sharding.staged() as (blocks, nodes):
        first = clean = sharding.clean(blocks, nodes, sharding.corpus.clean)
        corpus = fill_auto_cut(sharding.corpus, _sum_of("records", len(blocks), clean))
        plan = make_text_plan(blocks, clean, sharding.scratch, corpus, sharding.seed)
        check_kept(plan, "corpus.train.file: no training text is left", "none, the files are empty")
        for number in range(corpus.phrases.passes):
            clean = _with_phrases(sharding, clean, plan, number, nodes.near)
        chars = _sum_of("characters", len(blocks), first) / _sum_of("records", len(blocks), first)  # of a record
        return sharding.pack(
            *(blocks, clean, plan, nodes, lambda: _tokenizer(sharding, clean, plan, nodes.near, chars)),
            shard_sizes(sharding.shards, sharding.tokenizer, chars),
            kind="monolingual",
        )


def shard_sizes(config: ShardsConfig, tokenizer: TokenizerConfig, record_chars: float) -> ShardsConfig:
    """Returns the configured sizes, smaller for long records: a chunk of some CHUNK_TOKENS, a shard of SHARD_CHUNKS."""
    tokens = max(1.0, record_chars / (1 if tokenizer.type == "characters" else CHARS_A_TOKEN))
    chunk = min(config.chunk_records, 1 << (max(1, int(CHUNK_TOKENS / tokens)).bit_length() - 1))
    lines = max(1, min(config.shard_lines, chunk * SHARD_CHUNKS))
    return dataclasses.replace(config, chunk_records=chunk, shard_lines=lines)


def _sum_of(fact: str, blocks: int, clean: Path) -> int:
    return sum(int(load_facts(clean, block)[fact]) for block in range(blocks))


def _with_phrases(sharding: Sharding, clean: Path, plan: Plan, number: int, cluster: ClusterConfig) -> Path:
    """Runs one pass of phrases over all clean blocks; returns the folder of the new blocks."""
    rules, scratch = rules_of(sharding.tokenizer, sharding.languages[0]), sharding.scratch
    runs, folder, phrases = (
        scratch / f"pairs-{number}",
        scratch / f"phrases-{number}",
        scratch / f"phrases-{number}.txt",
    )
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
        written = write_phrases(phrases, words, pairs, sharding.corpus.phrases, number)
        logger.info(f"phrases, pass {number + 1}: {written:,}")
    blocks = range(len(plan.kept["train"]))
    tasks_joining = [JoiningTask(block, clean, rules, phrases, folder) for block in blocks]
    all_of("joining phrases", join_block, tasks_joining, cluster)
    return folder


def _tokenizer(
    sharding: Sharding, clean: Path, plan: Plan, cluster: ClusterConfig, record_chars: float
) -> TokenizerPair:
    """Builds the tokenizer from the training split: counts all of it, or trains on drawn lines.

    Draws as many records as configured, or fewer if they are so long that the text would be too large.
    """
    settings, language = sharding.tokenizer, sharding.languages[0]
    if settings.type in ("words", "characters") and not settings.train_lines:
        folder = sharding.scratch / "counts"
        folder.mkdir(exist_ok=True)
        tasks = [
            CountingTask(pieces, clean, plan.folder, settings, folder / f"{number:06d}.run", language)
            for number, pieces in enumerate(block_groups(plan))
        ]
        runs = all_of(f"counting {settings.type}", count_blocks, tasks, cluster)
        counts = read_run(merged_files(sorted(runs), folder / "all.run"))
        tokenizer: Tokenizer = most_frequent(settings, counts, language)  # holds settings.vocabulary entries in memory
    else:
        most = max(1, int(TRAINING_CHARS / record_chars))
        lines = draw_lines(kept_lines(clean, plan, "train", 0), min(settings.train_lines or most, most), sharding.seed)
        logger.info(f"training the tokenizer ({settings.name}) on {len(lines):,} of {plan.records('train'):,} records")
        tokenizer = train(settings, lines, language)
    return TokenizerPair(tokenizer, tokenizer)
