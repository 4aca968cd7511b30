"""`corpus.cut.valid=auto`: what is held out of a corpus of pairs that is nothing but training files.

Without a validation set a network cannot be trained, without a test set not be scored: two plain files should be
enough for both. Text of one language is left whole, for word vectors need neither.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from pipelines.corpus.settings import CorpusConfig
from pipelines.corpus.sources import Source

HELD_OUT = 2_000  # sentences a split, as many as the field's test sets have
MOST = 0.05  # of the corpus, a split
logger = logging.getLogger(__name__)


def with_auto_settled(config: CorpusConfig, sources: Sequence[Source]) -> CorpusConfig:
    """`auto` stays where it means a cut, and is 0 where there are held-out files, a fraction that was set, or text."""
    cut = config.cut
    only_training = config.format not in ("text", "phrasebook") and all(source.split == "train" for source in sources)
    if only_training and cut.valid == cut.test == "auto":
        return config
    return replace(config, cut=replace(cut, valid=cut.share("valid"), test=cut.share("test")))


def with_auto_cut(config: CorpusConfig, lines: int) -> CorpusConfig:
    """The fractions in the place of an `auto` that stayed, by the number of lines; says what they are."""
    if config.cut.valid != "auto":
        return config
    share = float(f"{min(MOST, HELD_OUT / lines):.2g}")  # short enough to be given by hand
    shares = f"corpus.cut.valid={share:g} corpus.cut.test={share:g}"
    logger.info(
        f"corpus.cut.valid=auto: no held-out files were given, so about {round(share * lines):,} of {lines:,} "
        f"sentences each become the validation and the test set (as {shares} does; give corpus.valid and corpus.test "
        f"files for sets of your own, 0 for none)"
    )
    return replace(config, cut=replace(config.cut, valid=share, test=share))
