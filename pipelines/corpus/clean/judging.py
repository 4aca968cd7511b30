"""`corpus.clean.rules`: judges the clean training pairs of a corpus block by block, after a fit to a sample of them.

Each part of a mix is judged by its own rules, which are fitted to its own pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.pipelines.corpus.clean.block import load_block, save_result
from dragoman.pipelines.corpus.clean.misalignment_scan import sample_lines
from dragoman.pipelines.corpus.clean.rules import FITTED, JUDGED, OF_TEXT, SCORED, Failed, chosen_rules
from dragoman.pipelines.corpus.clean.scores import load_scores
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.settings import CleanConfig
from dragoman.pipelines.settings import ClusterConfig

SAMPLE = 200_000  # pairs that the fitted rules learn from
SAMPLED_BLOCKS = 64


@dataclass(frozen=True)
class JudgedPart:
    """The training blocks of a corpus, or of one part of a mix, and the rules that judge them."""

    part: str  # empty: no mix
    languages: tuple[str, ...]
    config: CleanConfig
    blocks: tuple[Block, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        return chosen_rules(self.config)


def judge(each: Sequence[JudgedPart], clean: Path, folder: Path, scores: Path, cluster: ClusterConfig) -> None:
    """Writes the rules that each training pair fails into `folder`, once; nothing without rules of single pairs."""
    from dragoman.pipelines.cluster.map import all_of  # it loads torch

    for judged in each:
        if judged.blocks and set(judged.rules) & set(JUDGED):
            folder.mkdir(exist_ok=True)
            files = clean, folder, scores, fit(judged, clean, folder)
            function = partial(judge_block, *files, judged.config, judged.languages)
            all_of("judging pairs", function, judged.blocks, cluster)


def fit(judged: JudgedPart, clean: Path, folder: Path) -> Path | None:
    """Returns the file of the fitted rules, made once; None if there are none or the corpus is too small for them."""
    if not set(judged.rules) & set(FITTED):
        return None
    from dragoman.pipelines.corpus.clean import fitted_rules

    path, learned = (folder / f"fitted{judged.part and f'-{judged.part}'}.{end}" for end in ("npz", "json"))
    if read_json(learned) is None:
        sample = sample_lines(judged.blocks, clean, SAMPLE, SAMPLED_BLOCKS)
        rules = fitted_rules.learn(sample.source, sample.target, sample.number % 2)
        if rules is not None:
            fitted_rules.save(rules, path)
        write_json(learned, rules is not None)
    return path if read_json(learned) else None


def judge_block(
    clean: Path,
    folder: Path,
    scores: Path,
    fitted: Path | None,
    config: CleanConfig,
    languages: tuple[str, ...],
    block: Block,
) -> int:
    """Writes the rules that each pair of a clean block fails, once; returns the block's number.

    Args:
        clean: the folder of clean blocks.
        folder: for results.
        scores: the folder of scores.
        fitted: the file of the fitted rules; None: the corpus is too small for them.
    """

    def judge_pairs() -> Failed:
        loaded, rules = load_block(clean, block.number), chosen_rules(config)
        source, target = loaded.texts()
        failed = np.zeros(len(loaded.line), np.uint16)
        if set(rules) & set(OF_TEXT):
            failed |= _by_text(source, target, rules, languages)
        if fitted and len(source):
            parity = (loaded.line.astype(np.int64) + block.first_line) % 2
            masks = load_fitted(fitted).judge((source, target), parity, rules, languages, config.min_match)
            for rule, marks in masks.items():
                failed |= marks.astype(np.uint16) << np.uint16(JUDGED.index(rule))
        if SCORED in rules:
            low = load_scores(scores, block.number, len(failed)) < config.min_score
            failed |= low.astype(np.uint16) << np.uint16(JUDGED.index(SCORED))
        return failed

    return save_result(folder, block.number, judge_pairs)


def _by_text(source: Sequence[str], target: Sequence[str], rules: Sequence[str], languages: tuple[str, ...]) -> Failed:
    from dragoman.pipelines.corpus.clean.pair_rules import text_rules

    failed = np.zeros(len(source), np.uint16)
    checks = [(1 << JUDGED.index(rule), fails) for rule, fails in text_rules(languages).items() if rule in rules]
    for row, (left, right) in enumerate(zip(source, target, strict=True)):
        failed[row] = sum(bit for bit, fails in checks if fails(left, right))
    return failed


@lru_cache(maxsize=1)
def load_fitted(path: Path) -> Any:  # numba's modules are loaded when they are needed
    """Returns the rules of `fit`."""
    from dragoman.pipelines.corpus.clean import fitted_rules

    return fitted_rules.load(path)
