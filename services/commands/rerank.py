"""`dragoman rerank`: reorders another system's n-best lists with our model's score as a feature; no server."""

import contextlib
import logging
from pathlib import Path

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.ranges import check_ranges
from dragoman.services.commands.lines import open_input, read_lines
from dragoman.services.commands.nbest import read_nbest
from dragoman.services.commands.output import open_output
from dragoman.services.commands.reranker import LENGTH, SCORE, Reranker
from dragoman.services.commands.weights import Weights, load_weights
from dragoman.services.settings import RerankConfig

logger = logging.getLogger(__name__)


def rerank(config: RerankConfig, seed: int = 1) -> int:
    """Scores, tunes if asked, reorders and reports.

    Raises UserError: contradicting settings, a malformed list, or files that do not match.
    """
    check(config)
    with contextlib.ExitStack() as stack:
        file, name = stack.enter_context(open_input(config.nbest, "rerank", "nbest"))
        reranker = Reranker(config)
        lists = reranker.score_lists(read_nbest(read_lines(file, name, "raise", None), name))
        weights = load_weights(config.weights) if config.weights else equal_weights(config.feature)
        if config.tune:
            kept = list(lists)
            weights = reranker.tune_weights(kept, seed)
            weights.save(Path(config.tune))
            values = " ".join(f"{name}={weight:.4f}" for name, weight in weights.weights.items())
            logger.info("weights: %s, kept in %s", values, config.tune)
            if config.output is None:
                return compose.OK
            lists = iter(kept)
        reranker.check_origin(weights)
        out = stack.enter_context(open_output(config.output, "rerank"))
        tally = reranker.write(lists, weights, out)
    reranker.report(tally, weights)
    return compose.OK


def check(config: RerankConfig) -> None:
    """Raises UserError for invalid or contradicting settings."""
    check_ranges("rerank", config)
    if config.source is None:
        raise UserError("rerank.source: name the file of source lines that the lists are of")
    if config.tune and config.references is None:
        raise UserError("rerank.references: weights are tuned against references; name their file")
    if config.tune and config.weights:
        raise UserError("rerank.weights: tuning finds weights; set rerank.tune or rerank.weights, not both")
    if not config.feature or any(mark in config.feature for mark in " =:|\t") or config.feature in (SCORE, LENGTH):
        raise UserError(
            f"rerank.feature: {config.feature!r} cannot name a feature (no blanks, =, :, |; not Score, Length)"
        )


def equal_weights(feature: str) -> Weights:
    """Returns equal weights for their score and ours, as in Sutskever et al. (2014, section 3.7)."""
    return Weights({SCORE: 0.5, feature: 0.5})
