"""`corpus.clean.rules`: judges the clean training pairs of a corpus block by block, after a fit to a sample of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from model.files import atomic_open
from pipelines.cluster.map import all_of
from pipelines.corpus.clean.block import load_block
from pipelines.corpus.clean.misalignment_scan import sample_lines
from pipelines.corpus.clean.rules import FITTED, OF_TEXT, RULES, Failed, chosen_rules
from pipelines.corpus.read.scratch import read_json, write_json
from pipelines.corpus.read.staging import Block
from pipelines.corpus.settings import CleanConfig
from pipelines.settings import ClusterConfig

SAMPLE = 200_000  # pairs that the fitted rules learn from
SAMPLED_BLOCKS = 64


@dataclass(frozen=True)
class JudgingTask:
    """Judges one clean block by the rules."""

    block: Block
    clean: Path  # the folder of clean blocks
    folder: Path  # of results, and of the fitted rules
    config: CleanConfig
    languages: tuple[str, ...]


def judge(
    blocks: Sequence[Block],
    clean: Path,
    folder: Path,
    config: CleanConfig,
    languages: tuple[str, ...],
    cluster: ClusterConfig,
) -> None:
    """Writes the rules that each training pair fails into `folder`, once; nothing without rules of single pairs."""
    own = [block for block in blocks if block.source.split == "train"]
    rules = chosen_rules(config)
    if not own or not set(rules) & set(RULES):
        return
    folder.mkdir(exist_ok=True)
    if set(rules) & set(FITTED):
        _fit(own, clean, folder)
    tasks = [JudgingTask(block, clean, folder, config, languages) for block in own]
    all_of("judging pairs", judge_block, tasks, cluster)


def _fit(blocks: Sequence[Block], clean: Path, folder: Path) -> None:
    """Writes the fitted rules, or that the corpus is too small for them."""
    from pipelines.corpus.clean import fitted_rules

    if read_json(folder / "fitted.json") is not None:
        return
    sample = sample_lines(blocks, clean, SAMPLE, SAMPLED_BLOCKS)
    rules = fitted_rules.learn(sample.source, sample.target, sample.number % 2)
    if rules is not None:
        fitted_rules.save(rules, folder / "fitted.npz")
    write_json(folder / "fitted.json", rules is not None)


def judge_block(task: JudgingTask) -> int:
    """Writes the rules that each pair of a block fails, once; returns the block's number."""
    path = task.folder / f"{task.block.number:06d}.npy"
    if path.exists():
        return task.block.number
    block = load_block(task.clean, task.block.number)
    source, target = block.texts()
    rules = chosen_rules(task.config)
    failed = np.zeros(len(block.line), np.uint16)
    if set(rules) & set(OF_TEXT):
        failed |= _by_text(source, target, rules, task.languages)
    if set(rules) & set(FITTED) and read_json(task.folder / "fitted.json") and len(source):
        parity = (block.line.astype(np.int64) + task.block.first_line) % 2
        fitted = _load_fitted(task.folder / "fitted.npz")
        found = fitted.judge((source, target), parity, rules, task.languages, task.config.min_match)
        for rule, marks in found.items():
            failed |= marks.astype(np.uint16) << np.uint16(RULES.index(rule))
    with atomic_open(path, durable=False) as file:
        np.save(file, failed)
    return task.block.number


def _by_text(source: Sequence[str], target: Sequence[str], rules: Sequence[str], languages: tuple[str, ...]) -> Failed:
    from pipelines.corpus.clean.pair_rules import text_rules

    failed = np.zeros(len(source), np.uint16)
    checks = [(1 << RULES.index(rule), fails) for rule, fails in text_rules(languages).items() if rule in rules]
    for row, (left, right) in enumerate(zip(source, target, strict=True)):
        failed[row] = sum(bit for bit, fails in checks if fails(left, right))
    return failed


@lru_cache(maxsize=1)
def _load_fitted(path: Path) -> Any:  # numba's modules are loaded when they are needed
    from pipelines.corpus.clean import fitted_rules

    return fitted_rules.load(path)
