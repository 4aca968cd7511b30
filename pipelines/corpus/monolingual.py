"""Sharding of text of one language: the steps between the found files and the manifest.

In order: unpack and index the files, clean them block by block, plan every record, count or train the tokenizer, write
the shards. Stages and tasks are as for parallel corpora.
"""

import dataclasses
import logging
from collections import Counter
from functools import partial
from pathlib import Path

from dragoman.model.shards.manifest import Manifest, ShardsConfig
from dragoman.model.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair
from dragoman.model.text.tokenizers import check_config, draw_lines, train
from dragoman.model.text.words import count_units, most_frequent
from dragoman.pipelines.cluster.map import all_of
from dragoman.pipelines.corpus.clean.block import load_facts
from dragoman.pipelines.corpus.making import Sharding, check_kept
from dragoman.pipelines.corpus.pack.packing import Piece, kept_lines, take_pairs
from dragoman.pipelines.corpus.plan.plan import Plan, make_plan_by
from dragoman.pipelines.corpus.plan.text_plan import decide_texts
from dragoman.pipelines.corpus.read.cutting import fill_auto_cut
from dragoman.pipelines.settings import ClusterConfig

logger = logging.getLogger(__name__)
CHUNK_TOKENS = 1 << 17  # approximate size of a chunk: text records have any length, and a chunk is read at once
SHARD_CHUNKS = 128
TRAINING_CHARS = 50_000_000  # most text for training a subword tokenizer: records may be long
CHARS_A_TOKEN = 5


def count_block(clean: Path, plan: Path, tokenizer: TokenizerConfig, language: str, piece: Piece) -> Counter[str]:
    """Returns how often each unit occurs in a block's training text."""
    return Counter(count_units(tokenizer, take_pairs(clean, plan, "train", piece)[0], language))


def make_monolingual(sharding: Sharding) -> Manifest:
    """Writes everything but the manifest, resuming existing work; returns the manifest."""
    check_config(sharding.tokenizer)
    with sharding.staged() as (blocks, cluster):
        clean = sharding.clean(blocks, cluster, sharding.corpus.clean)
        corpus = fill_auto_cut(sharding.corpus, _sum_of("records", len(blocks), clean))
        decide = partial(decide_texts, blocks, clean, sharding.scratch, corpus, sharding.seed)
        plan = make_plan_by(blocks, clean, sharding.scratch, decide)
        check_kept(plan, "corpus.train.file: no training text is left", "none, the files are empty")
        chars = _sum_of("characters", len(blocks), clean) / _sum_of("records", len(blocks), clean)  # of a record
        return sharding.pack(
            *(blocks, clean, plan, cluster, lambda: _tokenizer(sharding, clean, plan, cluster, chars)),
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


def _tokenizer(
    sharding: Sharding, clean: Path, plan: Plan, cluster: ClusterConfig, record_chars: float
) -> TokenizerPair:
    """Builds the tokenizer from the training split: counts all of it, or trains on drawn lines.

    Draws as many records as configured, or fewer if they are so long that the text would be too large.
    """
    settings, language = sharding.tokenizer, sharding.languages[0]
    if settings.type in ("words", "characters") and not settings.train_lines:
        pieces = [Piece(block, 0, number) for block, number in enumerate(plan.kept["train"]) if number]
        counts: Counter[str] = Counter()
        count = partial(count_block, clean, plan.folder, settings, language)
        all_of(f"counting {settings.type}", count, pieces, cluster, counts.update)
        tokenizer: Tokenizer = most_frequent(settings, counts.items(), language)
    else:
        most = max(1, int(TRAINING_CHARS / record_chars))
        lines = draw_lines(kept_lines(clean, plan, "train", 0), min(settings.train_lines or most, most), sharding.seed)
        logger.info(f"training the tokenizer ({settings.name}) on {len(lines):,} of {plan.records('train'):,} records")
        tokenizer = train(settings, lines, language)
    return TokenizerPair(tokenizer, tokenizer)
