"""Sharding of text of one language: the steps between the found files and the manifest.

In order: unpack and index the files, clean them block by block, plan every record, join phrases pass by pass, count or
train the tokenizer, write the shards. Stages and tasks are as for parallel corpora.
"""

import dataclasses
import logging
from collections import Counter
from functools import partial
from pathlib import Path

from dragoman.model.shards.manifest import Manifest, ShardsConfig
from dragoman.model.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import check_config, draw_lines, train
from dragoman.model.text.words import count_units, most_frequent, rules_of
from dragoman.pipelines.cluster.map import all_of
from dragoman.pipelines.corpus.clean.block import load_facts
from dragoman.pipelines.corpus.making import Sharding, check_kept
from dragoman.pipelines.corpus.pack.counting import Group, groups_of, merged_files, read_run, write_run
from dragoman.pipelines.corpus.pack.packing import kept_lines
from dragoman.pipelines.corpus.pack.phrases import (
    count_pairs,
    join_block,
    write_phrases,
)
from dragoman.pipelines.corpus.plan.plan import Plan, make_plan_by
from dragoman.pipelines.corpus.plan.text_plan import decide_texts
from dragoman.pipelines.corpus.read.cutting import fill_auto_cut
from dragoman.pipelines.settings import ClusterConfig

logger = logging.getLogger(__name__)
CHUNK_TOKENS = 1 << 17  # approximate size of a chunk: text records have any length, and a chunk is read at once
SHARD_CHUNKS = 128
TRAINING_CHARS = 50_000_000  # most text for training a subword tokenizer: records may be long
CHARS_A_TOKEN = 5


def count_blocks(
    clean: Path, plan: Path, tokenizer: TokenizerConfig, language: str, folder: Path, group: Group
) -> Path:
    """Counts the units in a group's training text, once; returns the run."""
    run = folder / f"{group.number:06d}.run"
    if not run.exists():
        counts: Counter[str] = Counter()
        for texts in group.texts(clean, plan):
            counts.update(count_units(tokenizer, texts, language))
        write_run(run, sorted(counts.items()))
    return run


def make_monolingual(sharding: Sharding) -> Manifest:
    """Writes everything but the manifest, resuming existing work; returns the manifest.

    Raises UserError: a file that cannot be read, no text left, or nothing to build a vocabulary from.
    """
    check_config(sharding.tokenizer)
    with sharding.staged() as (blocks, nodes):
        first = clean = sharding.clean(blocks, nodes, sharding.corpus.clean)
        corpus = fill_auto_cut(sharding.corpus, _sum_of("records", len(blocks), clean))
        decide = partial(decide_texts, blocks, clean, sharding.scratch, corpus, sharding.seed)
        plan = make_plan_by(blocks, clean, sharding.scratch, decide)
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
        count = partial(count_pairs, clean, plan.folder, rules, runs)
        counted = sorted(all_of("counting pairs of words", count, groups_of(plan), cluster))
        words = merged_files([words for words, _ in counted], runs / "all.words")
        pairs = merged_files([pairs for _, pairs in counted], runs / "all.pairs")
        written = write_phrases(phrases, words, pairs, sharding.corpus.phrases, number)
        logger.info(f"phrases, pass {number + 1}: {written:,}")
    blocks = range(len(plan.kept["train"]))
    all_of("joining phrases", partial(join_block, clean, rules, phrases, folder), blocks, cluster)
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
        count = partial(count_blocks, clean, plan.folder, settings, language, folder)
        runs = all_of(f"counting {settings.type}", count, groups_of(plan), cluster)
        counts = read_run(merged_files(sorted(runs), folder / "all.run"))
        tokenizer: Tokenizer = most_frequent(settings, counts, language)  # holds settings.vocabulary entries in memory
    else:
        most = max(1, int(TRAINING_CHARS / record_chars))
        lines = draw_lines(kept_lines(clean, plan, "train", 0), min(settings.train_lines or most, most), sharding.seed)
        logger.info(f"training the tokenizer ({settings.name}) on {len(lines):,} of {plan.records('train'):,} records")
        tokenizer = train(settings, lines, language)
    return TokenizerPair(tokenizer, tokenizer)
