"""`corpus.cut.valid=auto`: the held-out splits of a corpus that has only training files.

A network cannot be trained without a validation set or scored without a test set, so plain files should be enough for
both. Text of whole words is not cut, because word vectors need neither.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from dragoman.conf.kinds import WHOLE_WORDS
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.settings import CorpusConfig

HELD_OUT = 2_000  # sentences per split, as many as the field's test sets have
MOST = 0.05  # largest part of the corpus for a split
FEWEST_RUNS = 4  # of adjacent records in a held-out split of a text
logger = logging.getLogger(__name__)


def settle_auto_cut(config: CorpusConfig, sources: Sequence[Source], tokenizer: str) -> CorpusConfig:
    """Keeps `auto` where it means a cut; makes it 0 if there are held-out files, a set fraction, or text of words."""
    cut = config.cut
    for_vectors = config.format == "text" and tokenizer in WHOLE_WORDS
    only_training = not for_vectors and all(source.split == "train" for source in sources)
    if only_training and cut.valid == cut.test == "auto":
        return config
    return replace(config, cut=replace(cut, valid=cut.share("valid"), test=cut.share("test")))


def fill_auto_cut(config: CorpusConfig, lines: int) -> CorpusConfig:
    """Replaces a kept `auto` by fractions that fit the number of lines, and logs them."""
    if config.cut.valid != "auto":
        return config
    text, run = config.format == "text", config.cut.run
    if text and lines < 2 / MOST:  # the few records are all needed
        return replace(config, cut=replace(config.cut, valid=0.0, test=0.0))
    share = float(f"{min(MOST, HELD_OUT / lines):.2g}")  # short enough to type
    shares = f"corpus.cut.valid={share:g} corpus.cut.test={share:g}"
    if text:
        run = min(run, max(1, int(lines * share / FEWEST_RUNS)))
        shares += f" corpus.cut.run={run}"
    logger.info(
        f"corpus.cut.valid=auto: no held-out files were given, so about {round(share * lines):,} of {lines:,} "
        f"{'records' if text else 'sentences'} each become the validation and the test set (as {shares} does; give "
        f"corpus.valid and corpus.test files for sets of your own, 0 for none)"
    )
    return replace(config, cut=replace(config.cut, valid=share, test=share, run=run))
