"""A vocabulary of words or characters, counted over the whole training text: one run per task, merged."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.text.tokenizer import Tokenizer, TokenizerConfig
from dragoman.model.text.words import count_units, most_frequent
from dragoman.pipelines.corpus.pack.counting import BoundedCounts, merged_files, read_run
from dragoman.pipelines.corpus.pack.packing import Piece, take_pairs
from dragoman.pipelines.corpus.plan.plan import Plan

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
        counts = BoundedCounts(task.run)
        for piece in task.pieces:
            texts = take_pairs(task.clean, task.plan, "train", piece)[0]
            counts.add(count_units(task.tokenizer, texts, task.language))
        counts.finish()
    return task.run


def counted_tokenizer(config: TokenizerConfig, runs: Sequence[Path], folder: Path, language: str = "") -> Tokenizer:
    """Returns the tokenizer of the most frequent units of all runs. Holds `config.vocabulary` entries in memory."""
    return most_frequent(config, read_run(merged_files(sorted(runs), folder / "all.run")), language)
