"""Pairs in memory as cleaned blocks, and back from a plan: where the tests of the plan and of the leak guard begin."""

from pathlib import Path

from dragoman.pipelines.corpus.clean.task import CleaningTask, clean_block
from dragoman.pipelines.corpus.pack.packing import kept_lines
from dragoman.pipelines.corpus.plan.plan import Plan
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import Block, blocks_of, stage, staging_tasks
from dragoman.pipelines.corpus.settings import CleanConfig

Pairs = list[tuple[str, str]]


def cleaned_blocks(folder: Path, splits: dict[str, Pairs]) -> tuple[list[Block], Path]:
    """The blocks of a corpus of these splits, and the folder where they lie cleaned."""
    folder.mkdir(exist_ok=True)
    sources = []
    for split, pairs in splits.items():
        files = (folder / f"{split}.a", folder / f"{split}.b")
        for side, path in enumerate(files):
            path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
        sources.append(Source(f"{split}-0", split, "moses", files, ("", "")))  # type: ignore[arg-type]  # its name
    for task in staging_tasks(sources, folder):
        stage(task)
    clean = folder / "clean"
    clean.mkdir()
    blocks = blocks_of(sources, folder)
    for block in blocks:
        clean_block(CleaningTask(block, CleanConfig(), "raise", clean))
    return blocks, clean


def kept_pairs(clean: Path, plan: Plan, split: str) -> Pairs:
    """What a split keeps."""
    return list(zip(kept_lines(clean, plan, split, 0), kept_lines(clean, plan, split, 1), strict=True))
