"""Sharding of a parallel corpus: the steps between the found files and the manifest.

In order: unpack and index the files, clean them block by block, check the alignment, plan every pair, train the
tokenizers, write the shards.
"""

import dataclasses
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.languages import is_rewriting, split_pair
from dragoman.model.shards.manifest import Manifest
from dragoman.model.text.tags import tag_prefix
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.cluster.map import all_of
from dragoman.pipelines.corpus.clean.judging import JudgedPart, judge
from dragoman.pipelines.corpus.clean.misalignment import Misaligned
from dragoman.pipelines.corpus.clean.misalignment_scan import (
    describe,
    misaligned_runs,
    prepare_detector,
    scan_block,
)
from dragoman.pipelines.corpus.clean.rules import BETWEEN_LANGUAGES, FOLDER, SCORED, chosen_rules
from dragoman.pipelines.corpus.clean.scores import FOLDER as SCORES
from dragoman.pipelines.corpus.clean.scores import score_blocks
from dragoman.pipelines.corpus.making import Sharding, check_kept
from dragoman.pipelines.corpus.pack.cleaning_record import cleaning_record, write_record
from dragoman.pipelines.corpus.pack.packing import kept_lines
from dragoman.pipelines.corpus.pack.spreading import Nodes
from dragoman.pipelines.corpus.plan.leaks import RULES as LEAK_RULES
from dragoman.pipelines.corpus.plan.leaks import leak_rules
from dragoman.pipelines.corpus.plan.near_pairs import near_lines, near_pairs
from dragoman.pipelines.corpus.plan.near_words import RULES as NEAR_WORDS
from dragoman.pipelines.corpus.plan.plan import CleanedCorpus, Plan, make_plan, spans_of
from dragoman.pipelines.corpus.read.cutting import fill_auto_cut
from dragoman.pipelines.corpus.read.parts import all_tags
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.settings import CleanConfig
from dragoman.pipelines.settings import ClusterConfig

logger = logging.getLogger(__name__)
MANY_LEAKS = 0.1  # of the training pairs


def make_parallel(sharding: Sharding) -> Manifest:
    """Writes everything but the manifest, resuming existing work; returns the manifest.

    Raises UserError: a file that cannot be read, misaligned files, or no pair left.
    """
    with sharding.staged() as (blocks, nodes):
        planned = plan_pairs(sharding, blocks, nodes)
        clean, plan, runs = planned.clean, planned.plan, planned.runs
        _check_parts(plan)
        check_kept(plan, "corpus.clean: no training pair is left", "none")
        _warn_of_leaks(plan)
        manifest = sharding.pack(
            *(blocks, clean, plan, nodes, lambda: _tokenizers(sharding, clean, plan)),
            runs=runs,
            warnings=[describe(source, run) for source in sharding.sources for run in runs.get(source.name, ())],
            near=near_lines(plan.folder, plan.kept),
            near_words={"mode": sharding.corpus.near_words, **near_pairs(plan.folder)},
        )
        if any(each.rules for each in planned.judged):
            write_record(sharding.directory, cleaning_record(sharding.corpus.name, sharding.languages, planned))
        return manifest


def plan_pairs(sharding: Sharding, blocks: list[Block], nodes: Nodes) -> CleanedCorpus:
    """Cleans the blocks, checks their alignment, judges and plans every pair."""
    corpus, scratch = sharding.corpus, sharding.scratch
    scores = scratch / SCORES
    (scratch / "scans").mkdir(exist_ok=True)
    rules = _rules_for(corpus.clean, sharding.languages)
    clean = sharding.clean(blocks, nodes, rules, leak_rules(corpus) != "source")
    runs = _find_misaligned_runs(corpus.misaligned, sharding.sources, blocks, clean, scratch, nodes.near)
    judged = list_judged(sharding, blocks)
    if sharding.scorers:
        train = [block for each in judged for block in each.blocks]
        score_blocks(train, clean, scores, sharding.scorers, nodes.near)
    judge(judged, clean, scratch / FOLDER, scores, nodes.near)
    cut = fill_auto_cut(corpus, sum(block.lines for block in blocks))
    drop = runs if corpus.misaligned == "drop" else {}
    plan = make_plan(blocks, clean, scratch, cut, sharding.seed, drop, judged)
    if sharding.parts:
        plan.parts = spans_of(blocks, {part.name: tag_prefix(part.tags) for part in sharding.parts})
    return CleanedCorpus(blocks, clean, judged, runs, plan)


def list_judged(sharding: Sharding, blocks: Sequence[Block]) -> list[JudgedPart]:
    """Returns the training blocks of the corpus, or of each part of a mix, with the rules that judge them."""
    train = [block for block in blocks if block.source.split == "train"]
    if not sharding.parts:
        rules = _rules_for(sharding.corpus.clean, sharding.languages)
        return [JudgedPart("", sharding.languages, rules, tuple(train))]
    judged = []
    for part in sharding.parts:
        languages = split_pair(part.pair)
        own = tuple(block for block in train if block.source.part == part.name)
        judged.append(JudgedPart(part.name, languages, _rules_for(part.corpus.clean, languages), own))
    return judged


def _rules_for(config: CleanConfig, languages: tuple[str, ...]) -> CleanConfig:
    """Returns the rules for these languages: of one language a text may be right as it is."""
    if not is_rewriting(languages):
        return config
    chosen = [rule for rule in chosen_rules(config) if rule not in (*BETWEEN_LANGUAGES, SCORED)]
    return dataclasses.replace(config, copies=False, rules=chosen)


def _find_misaligned_runs(
    policy: str, sources: Sequence[Source], blocks: Sequence[Block], clean: Path, scratch: Path, cluster: ClusterConfig
) -> dict[str, list[Misaligned]]:
    """Returns source name -> misaligned runs, and reports each to the user."""
    path = scratch / "misaligned.json"
    recorded = read_json(path)
    if recorded is None:
        detector = prepare_detector(blocks, clean, scratch / "guard.npz")
        runs: dict[str, list[Misaligned]] = {}
        if detector is not None:
            scans = scratch / "scans"
            scan = partial(scan_block, clean, scratch / "guard.npz", scans)
            all_of("checking the alignment", scan, blocks, cluster)
            runs = misaligned_runs(detector, sources, blocks, clean, scans)
        recorded = {name: [dataclasses.asdict(run) for run in each] for name, each in runs.items()}
        write_json(path, recorded)
    runs = {name: [Misaligned(**run) for run in each] for name, each in recorded.items()}
    messages = [describe(source, run) for source in sources for run in runs.get(source.name, ())]
    if messages and policy == "raise":
        raise UserError("; ".join(messages) + " (corpus.misaligned=warn or drop goes on)")
    dropped = "; they are dropped" if policy == "drop" else "; corpus.misaligned=drop leaves them out"
    for message in messages:
        logger.warning(f"warning: {message}{dropped}")
    return runs


def _check_parts(plan: Plan) -> None:
    """Raises UserError if the rules leave a part of the mix without a training pair."""
    for span in plan.parts:
        if not plan.records_of(span.part).get("train"):
            raise UserError(
                f"corpus.parts, {span.part}: no training pair is left (its pairs repeat those of earlier parts or of "
                f"held-out sets, or corpus.clean drops them)"
            )


def _warn_of_leaks(plan: Plan) -> None:
    """Warns if a guard against leaks drops much of the corpus, and names the setting that spares it."""
    for rules, key, words in (
        (
            tuple(rule for rule in LEAK_RULES if rule not in NEAR_WORDS),
            "corpus.leaks",
            "say on a side what a held-out pair says, and are dropped. Where sentences recur by design, "
            "corpus.leaks=source compares sources alone",
        ),
        (
            NEAR_WORDS,
            "corpus.near_words=drop",
            "are a few words or letters from a held-out pair, and are dropped; corpus.near_words=mark only counts them",
        ),
    ):
        number = sum(plan.dropped["train"].get(rule, 0) for rule in rules)
        share = number / (number + plan.records("train"))
        if share > MANY_LEAKS:
            logger.warning(f"warning: {key}: {number:,} training pairs ({100 * share:.0f} %) {words}")


def _tokenizers(sharding: Sharding, clean: Path, plan: Plan) -> TokenizerPair:
    """Trains the tokenizers on the training split."""
    settings, languages = sharding.tokenizer, sharding.languages
    logger.info(f"training the tokenizer ({settings.name}) on {plan.records('train'):,} pairs")
    source, target = (kept_lines(clean, plan, "train", side) for side in (0, 1))
    tags = all_tags(sharding.parts)
    return train_pair(settings, source, target, sharding.seed, (languages[0], languages[1]), tags)
