"""Sharding of labelled texts: the steps of a parallel corpus, with the labels as its second side.

Rules about translations (length ratio, copies, alignment) are left out. A label that training does not have is refused.
"""

import dataclasses
import logging
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizers import check_config, draw_lines, train
from dragoman.pipelines.corpus.making import Sharding, check_kept
from dragoman.pipelines.corpus.pack.packing import kept_lines
from dragoman.pipelines.corpus.plan.plan import Plan, make_plan
from dragoman.pipelines.corpus.read.cutting import fill_auto_cut
from dragoman.pipelines.corpus.read.file_names import SPLITS
from dragoman.pipelines.corpus.read.sources import Source

logger = logging.getLogger(__name__)
SHOWN = 10  # labels in a message


def make_labelled(sharding: Sharding) -> Manifest:
    """Writes everything but the manifest, resuming existing work; returns the manifest."""
    corpus = sharding.corpus
    check_config(sharding.tokenizer)
    with sharding.staged() as (blocks, cluster):
        clean = sharding.clean(blocks, cluster, dataclasses.replace(corpus.clean, max_ratio=0.0, copies=False))
        cut = fill_auto_cut(corpus, sum(block.lines for block in blocks))
        plan = make_plan(blocks, clean, sharding.scratch, cut, sharding.seed)
        check_kept(plan, "corpus.train.file: no labelled training text is left", "none")
        labels = LabelTokenizer.of(corpus.labels, kept_lines(clean, plan, "train", 1))
        for split in SPLITS[1:]:
            if plan.records(split):
                _check_labels(labels, clean, plan, split)
        warnings = [*_lost(labels, sharding.sources), *_alike(labels)]
        for warning in warnings:
            logger.warning(warning)
        return sharding.pack(
            *(blocks, clean, plan, cluster, lambda: _tokenizers(sharding, clean, plan, labels)),
            kind="labelled",
            warnings=warnings,
        )


def _tokenizers(sharding: Sharding, clean: Path, plan: Plan, labels: LabelTokenizer) -> TokenizerPair:
    """Trains the tokenizer of the texts on the training split, or takes the given one."""
    if sharding.given is not None:
        return TokenizerPair(sharding.given.pair.source, labels)
    settings = sharding.tokenizer
    lines = draw_lines(kept_lines(clean, plan, "train", 0), settings.train_lines, sharding.seed)
    logger.info(f"training the tokenizer ({settings.name}) on {len(lines):,} of {plan.records('train'):,} texts")
    return TokenizerPair(train(settings, lines, sharding.languages[0]), labels)


def _check_labels(labels: LabelTokenizer, clean: Path, plan: Plan, split: str) -> None:
    """Raises UserError if texts of a held-out split have labels that no training text has."""
    missing: Counter[str] = Counter()
    for text in kept_lines(clean, plan, split, 1):
        missing.update(labels.unknown(text))
    if missing:
        counts = _counted(missing)
        names = ", ".join(labels.labels[:SHOWN]) + (" ..." if len(labels.labels) > SHOWN else "")
        raise UserError(
            f"corpus.{split}: has labels that no training text has: {counts}. Those of the training texts are {names}; "
            f"add texts of each class to them, or leave the others out"
        )


def _lost(labels: LabelTokenizer, sources: Sequence[Source]) -> Iterator[str]:
    """Yields a warning if cleaning dropped all texts of some labels: the network cannot answer with those."""
    counts: Counter[str] = Counter()
    for source in sources:
        if source.split == "train":
            with source.files[1].open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    counts.update(labels.unknown(line.rstrip("\n")))
    if counts:
        yield f"corpus.train: no text is left of the labels {_counted(counts)}; corpus.clean dropped them"


def _alike(labels: LabelTokenizer) -> Iterator[str]:
    """Yields a warning for labels that differ by case or by Unicode's compatible forms alone."""
    groups: dict[str, list[str]] = {}
    for label in labels.labels:
        groups.setdefault(unicodedata.normalize("NFKC", label).casefold(), []).append(label)
    repeated = [" and ".join(group) for group in groups.values() if len(group) > 1]
    if repeated:
        more = f" and {len(repeated) - SHOWN} more" if len(repeated) > SHOWN else ""
        yield f"corpus.train: labels that look alike count as different ones: {', '.join(repeated[:SHOWN])}{more}"


def _counted(labels: Counter[str]) -> str:
    """Returns the most frequent labels with their counts."""
    return ", ".join(f"{label} ({count:,})" for label, count in labels.most_common(SHOWN))
