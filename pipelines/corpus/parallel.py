"""Sharding of a parallel corpus: the steps between the found files and the manifest.

In order: unpack and index the files, clean them block by block, plan every pair, train the tokenizers, write the
shards.
"""

import dataclasses
import logging
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.languages import is_rewriting
from dragoman.model.shards.manifest import Manifest
from dragoman.model.text.tags import tag_prefix
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizers import train_pair
from dragoman.pipelines.corpus.making import Sharding, check_kept
from dragoman.pipelines.corpus.pack.packing import kept_lines
from dragoman.pipelines.corpus.plan.leaks import RULES as LEAK_RULES
from dragoman.pipelines.corpus.plan.leaks import leak_rules
from dragoman.pipelines.corpus.plan.plan import Plan, make_plan, spans_of
from dragoman.pipelines.corpus.read.cutting import fill_auto_cut
from dragoman.pipelines.corpus.read.parts import all_tags

logger = logging.getLogger(__name__)
MANY_LEAKS = 0.1  # of the training pairs


def make_parallel(sharding: Sharding) -> Manifest:
    """Writes everything but the manifest, resuming existing work; returns the manifest."""
    corpus = sharding.corpus
    with sharding.staged() as (blocks, cluster):
        rules = corpus.clean
        if is_rewriting(sharding.languages):  # a text may be right as it is
            rules = dataclasses.replace(rules, copies=False)
        clean = sharding.clean(blocks, cluster, rules, leak_rules(corpus) != "source")
        cut = fill_auto_cut(corpus, sum(block.lines for block in blocks))
        plan = make_plan(blocks, clean, sharding.scratch, cut, sharding.seed)
        if sharding.parts:
            plan.parts = spans_of(blocks, {part.name: tag_prefix(part.tags) for part in sharding.parts})
        _check_parts(plan)
        check_kept(plan, "corpus.clean: no training pair is left", "none")
        _warn_of_leaks(plan)
        return sharding.pack(blocks, clean, plan, cluster, lambda: _tokenizers(sharding, clean, plan))


def _check_parts(plan: Plan) -> None:
    """Raises UserError if the rules leave a part of the mix without a training pair."""
    for span in plan.parts:
        if not plan.records_of(span.part).get("train"):
            raise UserError(
                f"corpus.parts, {span.part}: no training pair is left (its pairs repeat those of earlier parts or of "
                f"held-out sets, or corpus.clean drops them)"
            )


def _warn_of_leaks(plan: Plan) -> None:
    """Warns if the leak guard drops much of the corpus, and names the setting that spares it."""
    number = sum(plan.dropped["train"].get(rule, 0) for rule in LEAK_RULES)
    share = number / (number + plan.records("train"))
    if share > MANY_LEAKS:
        logger.warning(
            f"warning: corpus.leaks: {number:,} training pairs ({100 * share:.0f} %) "
            "say on a side what a held-out pair says, and are dropped. Where sentences recur by design, "
            "corpus.leaks=source compares sources alone"
        )


def _tokenizers(sharding: Sharding, clean: Path, plan: Plan) -> TokenizerPair:
    """Trains the tokenizers on the training split."""
    settings, languages = sharding.tokenizer, sharding.languages
    logger.info(f"training the tokenizer ({settings.name}) on {plan.records('train'):,} pairs")
    source, target = (kept_lines(clean, plan, "train", side) for side in (0, 1))
    tags = all_tags(sharding.parts)
    return train_pair(settings, source, target, sharding.seed, (languages[0], languages[1]), tags)
