"""`corpus.cut.valid=auto`: the held-out splits of a parallel corpus that has only training files.

A network cannot be trained without a validation set or scored without a test set, so two plain files should be enough
for both. Text of one language is not cut, because word vectors need neither.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.settings import CorpusConfig

HELD_OUT = 2_000  # sentences per split, as many as the field's test sets have
MOST = 0.05  # largest part of the corpus for a split
logger = logging.getLogger(__name__)


def settle_auto_cut(config: CorpusConfig, sources: Sequence[Source]) -> CorpusConfig:
    """Keeps `auto` where it means a cut; makes it 0 if there are held-out files, a set fraction, or text."""
    cut = config.cut
    only_training = config.format != "text" and all(source.split == "train" for source in sources)
    if only_training and cut.valid == cut.test == "auto":
        return config
    return replace(config, cut=replace(cut, valid=cut.share("valid"), test=cut.share("test")))


def fill_auto_cut(config: CorpusConfig, lines: int) -> CorpusConfig:
    """Replaces a kept `auto` by fractions that fit the number of lines, and logs them."""
    if config.cut.valid != "auto":
        return config
    share = float(f"{min(MOST, HELD_OUT / lines):.2g}")  # short enough to type
    shares = f"corpus.cut.valid={share:g} corpus.cut.test={share:g}"
    logger.info(
        f"corpus.cut.valid=auto: no held-out files were given, so about {round(share * lines):,} of {lines:,} "
        f"sentences each become the validation and the test set (as {shares} does; give corpus.valid and corpus.test "
        f"files for sets of your own, 0 for none)"
    )
    return replace(config, cut=replace(config.cut, valid=share, test=share))
