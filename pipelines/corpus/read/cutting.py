"""`corpus.cut.valid=auto`: the held-out splits of a corpus that has only training files.

A network cannot be trained without a validation set or scored without a test set, so plain files should be enough for
both. Text in whole words is not cut, because word vectors need neither.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from dragoman.conf.kinds import WHOLE_WORDS
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.settings import CorpusConfig
from dragoman.pipelines.corpus.sizes import fitting_run

HELD_OUT = 2_000  # sentences per split, as many as the field's test sets have
MOST = 0.05  # largest part of the corpus for a split
FEWEST = 3  # records of a corpus that is cut
logger = logging.getLogger(__name__)


def settle_auto_cut(config: CorpusConfig, sources: Sequence[Source], tokenizer: str) -> CorpusConfig:
    """Keeps `auto` where it means a cut; makes it 0 if there are held-out files, a set fraction, or word vectors' text
    (by `tokenizer.type`)."""
    cut, vectors = config.cut, config.format == "text" and tokenizer in WHOLE_WORDS
    if not vectors and all(source.split == "train" for source in sources) and cut.valid == cut.test == "auto":
        return config
    return replace(config, cut=replace(cut, valid=cut.share("valid"), test=cut.share("test")))


def fill_auto_cut(config: CorpusConfig, records: int) -> CorpusConfig:
    """Replaces a kept `auto` by fractions that fit the number of records, and logs them; of text the run too."""
    if config.cut.valid != "auto" or records < FEWEST:
        return config
    share = float(f"{min(MOST, HELD_OUT / records):.2g}")  # short enough to type
    shares, cut = f"corpus.cut.valid={share:g} corpus.cut.test={share:g}", config.cut
    if config.format == "text" and (run := fitting_run(records, share)) < cut.run:
        shares, cut = f"{shares} corpus.cut.run={run}", replace(cut, run=run)
    logger.info(
        f"corpus.cut.valid=auto: no held-out files were given, so about {round(share * records):,} of {records:,} "
        f"{'records' if config.format == 'text' else 'sentences'} each become the validation and the test set (as "
        f"{shares} does; give corpus.valid and corpus.test files for sets of your own, 0 for none)"
    )
    return replace(config, cut=replace(cut, valid=share, test=share))
