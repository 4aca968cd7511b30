"""`dragoman rerank`: reorders another system's n-best lists with our model's score as a feature; no server."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from dragoman.conf import compose
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import UNSPACED, SentenceBleu, bleu, tokeniser
from dragoman.model.inference.reranking import Lists, tune
from dragoman.model.inference.scoring import Scorer, open_scorer
from dragoman.model.languages import language_by_script
from dragoman.model.plural import plural
from dragoman.model.ranges import check_ranges
from dragoman.services.commands.lines import batches, flat, open_input, open_output, read_lines
from dragoman.services.commands.nbest import Entry, NBest, Weights, load_weights, read_nbest
from dragoman.services.models.source import TRANSLATION, find_model, open_bundle
from dragoman.services.settings import RerankConfig

logger = logging.getLogger(__name__)
SCORE, LENGTH = "Score", "Length"  # features of every hypothesis: the other system's total, and its words


def rerank(config: RerankConfig) -> int:
    """Scores, tunes if asked, reorders and reports."""
    check(config)
    with contextlib.ExitStack() as stack:
        file, name = stack.enter_context(open_input(config.nbest, "rerank.nbest"))
        reranker = Reranker(config)
        lists = reranker.score_lists(read_nbest(read_lines(file, name, "raise", skips=False), name))
        # equal weights without a file: Sutskever et al. (2014, section 3.7)
        weights = load_weights(config.weights) if config.weights else Weights({SCORE: 0.5, config.feature: 0.5})
        if config.tune:
            kept = list(lists)
            weights = reranker.tune_weights(kept)
            weights.save(Path(config.tune))
            values = " ".join(f"{name}={weight:.4f}" for name, weight in weights.weights.items())
            logger.info("weights: %s, kept in %s", values, config.tune)
            if config.output is None:
                return compose.OK
            lists = iter(kept)
        reranker.check_origin(weights)
        out = stack.enter_context(open_output(config.output))
        tally = reranker.write(lists, weights, out)
    reranker.report(tally, weights)
    return compose.OK


def check(config: RerankConfig) -> None:
    """Refuses invalid or contradicting settings."""
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


@dataclass
class Statistics:
    """Counts of a run: BLEU's statistics (K,) before and after, and the features that occurred."""

    lists: int = 0
    hypotheses: int = 0
    moved: int = 0  # lists with a different best hypothesis
    before: list[NDArray[np.int64]] = field(default_factory=list)
    after: list[NDArray[np.int64]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


class Reranker:
    """The lists' source and references, and the model, which is loaded at the first list without its score."""

    def __init__(self, config: RerankConfig) -> None:
        self.config = config
        if config.bundle is not None:  # a mistake in the name is refused even if the lists have our scores
            find_model(config, *TRANSLATION)
        self.first: list[str] = []  # hypotheses of the first lists
        self.sources = all_lines(config.source or "", "source")
        self.references = None if config.references is None else all_lines(config.references, "references")
        if self.references is not None and len(self.references) != len(self.sources):
            raise UserError(
                f"{config.references} has {plural(len(self.references), 'line')}, {config.source} {len(self.sources)}: "
                f"a reference is a line of the same number"
            )

    @cached_property
    def bundle(self) -> TranslationBundle:
        return open_bundle(self.config)

    @cached_property
    def scorer(self) -> Scorer:
        return open_scorer(self.bundle, self.config.home.device)

    @cached_property
    def counter(self) -> SentenceBleu:
        """Returns the BLEU counter for the hypotheses' language: the model's if loaded, else a guess by script."""
        if "bundle" in self.__dict__:
            language = self.bundle.languages[0 if self.config.reverse else 1]
        else:
            language = language_by_script(self.references or self.first)
        return SentenceBleu(tokeniser(self.config.tokenize, language, "rerank.tokenize"))

    def score_lists(self, lists: Iterator[NBest]) -> Iterator[NBest]:
        """Yields the same lists with our feature for every hypothesis, and with score and length as features."""
        ours: bool | None = None  # True if the file has our feature
        for chunk in batches(lists, self.config.lists):
            entries = [(self.sentence(each), entry) for each in chunk for entry in each.entries]
            if ours is None:
                self.first = [entry.text for _, entry in entries]
                ours = self.config.feature in entries[0][1].features
                if ours:
                    logger.info("%s is a feature of the lists already: taken as it is", self.config.feature)
            odd = [entry for _, entry in entries if (self.config.feature in entry.features) != ours]
            if odd:
                raise UserError(
                    f"{odd[0].place}: {'no feature' if ours else 'a feature'} {self.config.feature}, which others have"
                    f"{'' if ours else ' not'}; rerank.feature=NAME gives ours another name"
                )
            if not ours:
                self.score(entries)
            for _, entry in entries:
                own = {} if entry.score is None else {SCORE: entry.score}
                entry.features = {**own, LENGTH: self.length(entry.text), **entry.features}
            yield from chunk

    def sentence(self, each: NBest) -> str:
        """Returns the source of a list."""
        if each.number >= len(self.sources):
            raise UserError(
                f"{each.entries[0].place}: sentence {each.number}, but {self.config.source} has "
                f"{plural(len(self.sources), 'line')} (numbers begin at 0)"
            )
        return self.sources[each.number]

    def score(self, pairs: Sequence[tuple[str, Entry]]) -> None:
        """Gives every hypothesis our log-probability; computes equal ones once.

        A model of the other direction scores the source, given the hypothesis: the channel of a noisy-channel model
        (Brown et al. 1993; for n-best lists of neural networks Yee et al. 2019).
        """
        different: dict[tuple[str, str], str] = {}
        for source, entry in pairs:
            different.setdefault((source, entry.text), entry.place)
        sources, texts = [source for source, _ in different], [text for _, text in different]
        pair_scores = self.scorer.score(
            *((texts, sources) if self.config.reverse else (sources, texts)),
            batch_tokens=self.config.batch_tokens,
            too_long=self.config.too_long,
            places=list(different.values()),
        )
        scores = dict(zip(different, pair_scores, strict=True))
        for source, entry in pairs:
            entry.features[self.config.feature] = entry.ours = scores[source, entry.text].log_probability

    def length(self, text: str) -> float:
        """Returns the number of words, or of characters in scripts without spaces."""
        return float(len("".join(text.split())) if self.counter.tokenize in UNSPACED else len(text.split()))

    def statistics(self, each: NBest) -> NDArray[np.int64]:
        """Returns (n, K) of a list's hypotheses against their reference."""
        assert self.references is not None
        return self.counter.statistics([entry.text for entry in each.entries], self.references[each.number])

    def tune_weights(self, lists: Sequence[NBest]) -> Weights:
        """Returns the weights with the best BLEU on these lists, for translations as long as the lists' first ones."""
        entries = [entry for each in lists for entry in each.entries]
        if not entries:
            raise UserError(f"{self.config.nbest or 'standard input'}: no lists to tune on")
        for entry in entries:
            if SCORE not in entry.features:
                raise UserError(f"{entry.place}: no score in the last column, which is weighed beside ours")
        names = [SCORE, self.config.feature, LENGTH]
        features = np.array([[entry.features[name] for name in names] for entry in entries])
        sizes = [len(each.entries) for each in lists]
        data = Lists(features, np.concatenate([self.statistics(each) for each in lists]), np.cumsum([0, *sizes]))
        weights = tune(data.match_lengths())
        first, after = float(bleu(data.statistics[data.offsets[:-1]].sum(0))), data.bleu(weights)
        logger.info(
            "BLEU %.2f as they came, %.2f by the tuned weights (%s lists, %s hypotheses) %s",
            first,
            after,
            f"{len(lists):,}",
            f"{len(entries):,}",
            self.counter.signature,
        )
        return Weights(
            dict(zip(names, weights.tolist(), strict=True)),
            {
                "feature": self.config.feature,
                "reverse": self.config.reverse,
                "tuned_on": {"lists": len(lists), "hypotheses": len(entries)},
                "bleu": {"before": first, "after": after, "signature": self.counter.signature},
                "bundle": self.bundle.digest if "bundle" in self.__dict__ else None,
            },
        )

    def check_origin(self, weights: Weights) -> None:
        """Raises UserError if the weights belong to another feature, or to a model of the other direction."""
        feature = weights.facts.get("feature", self.config.feature)
        if feature != self.config.feature:
            raise UserError(
                f"rerank.weights: {self.config.weights} weighs {feature!r} and not {self.config.feature!r}; "
                f"set rerank.feature={feature}"
            )
        reverse = weights.facts.get("reverse", False)
        if "reverse" in weights.facts and reverse != self.config.reverse:
            raise UserError(
                f"rerank.weights: {self.config.weights} was tuned with rerank.reverse={str(reverse).lower()}; set it so"
            )

    def write(self, lists: Iterable[NBest], weights: Weights, out: TextIO) -> Statistics:
        """Writes the reordered lists, or one hypothesis each; then one line per sentence, empty if it has no list."""
        statistics = Statistics()
        expected = 0
        for each in lists:
            if self.config.format == "text":
                out.write("\n" * (each.number - expected))
            expected = each.number + 1
            totals = [self.total(entry, weights) for entry in each.entries]
            order = sorted(range(len(totals)), key=lambda row: -totals[row])
            self.count(statistics, each, order[0])
            if self.config.format == "text":
                out.write(flat(each.entries[order[0]].text) + "\n")
                continue
            scored = self.config.format == "scored"
            for row in range(len(order)) if scored else order:
                entry = each.entries[row]
                ours = {} if entry.ours is None else {self.config.feature: entry.ours}
                out.write(entry.line(each.number, ours, entry.score if scored else totals[row]))
        if self.config.format == "text":
            out.write("\n" * (len(self.sources) - expected))
        return statistics

    def total(self, entry: Entry, weights: Weights) -> float:
        if SCORE in weights.weights and SCORE not in entry.features and self.config.format != "scored":
            raise UserError(f"{entry.place}: no score in the last column, which the weights count on")
        return weights.score(entry.features)

    def count(self, statistics: Statistics, each: NBest, best: int) -> None:
        statistics.lists += 1
        statistics.hypotheses += len(each.entries)
        statistics.moved += best != 0
        statistics.seen.update(*(entry.features for entry in each.entries))
        if self.references is not None:
            first, chosen = self.counter.statistics(
                [each.entries[0].text, each.entries[best].text], self.references[each.number]
            )
            statistics.before.append(first)
            statistics.after.append(chosen)

    def report(self, statistics: Statistics, weights: Weights) -> None:
        """Reports the work, and BLEU before and after if there are references."""
        logger.info(
            "%s lists, %s hypotheses; another one is best in %s",
            *map("{:,}".format, (statistics.lists, statistics.hypotheses, statistics.moved)),
        )
        absent = [name for name in weights.weights if name not in statistics.seen]
        if absent and statistics.lists:
            logger.warning("weights for features that no hypothesis has: %s", ", ".join(absent))
        if len(self.sources) > statistics.lists:
            logger.warning("%d sentences have no list", len(self.sources) - statistics.lists)
        digest = weights.facts.get("bundle")
        if digest and "bundle" in self.__dict__ and digest != self.bundle.digest:
            logger.warning("the weights were tuned with another bundle (%s...)", str(digest)[:12])
        if self.references is not None and statistics.lists:
            before, after = (float(bleu(np.sum(rows, axis=0))) for rows in (statistics.before, statistics.after))
            logger.info(
                "BLEU %.2f before, %.2f after: %+.2f (%d sentences) %s",
                before,
                after,
                after - before,
                statistics.lists,
                self.counter.signature,
            )


def all_lines(path: str, key: str) -> list[str]:
    """Returns every line of a file."""
    with open_input(path, f"rerank.{key}") as (file, name):
        return [line or "" for line in read_lines(file, name, "raise", skips=False)]
