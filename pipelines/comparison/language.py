"""Language models on one page: bits per character of a held-out text, what they were trained on, how they go on."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dragoman.model.bundles.language import TextBundle, load_text_bundle
from dragoman.model.errors import UserError
from dragoman.model.plural import plural
from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.comparison.figures import curves
from dragoman.pipelines.comparison.measures import Common, Measures, measured
from dragoman.pipelines.comparison.networks import Networks
from dragoman.pipelines.comparison.page import Sample
from dragoman.pipelines.comparison.pictures import Picture, draw_scores, picture
from dragoman.pipelines.evaluation.language.evaluation import TextEvaluation, evaluate_text_bundle
from dragoman.pipelines.evaluation.language.samples import TextSample
from dragoman.pipelines.evaluation.significance import Floats, Interval, resample

Bits = tuple[Sequence[float], Sequence[int]]  # bits and characters of each record
logger = logging.getLogger(__name__)
SAMPLES = 4  # texts that every network continues


def resample_bits(systems: Sequence[Bits], samples: int) -> tuple[Floats, Floats]:
    """Returns (systems,) bits per character of the text and (samples, systems) of sets of records, the same for all."""
    bits, sizes = (np.array([system[place] for system in systems], np.float64) for place in (0, 1))
    drawn = resample(sizes.shape[1], samples, lambda rows: bits[:, rows].sum(1) / sizes[:, rows].sum(1))
    return bits.sum(1) / sizes.sum(1), drawn


@dataclass(kw_only=True)
class LanguageMeasures(Measures):
    """The measures of one language model."""

    step, digits, highest, lowest = "bits_difference", 3, (6,), (1, 3)

    bits: Interval  # per character
    perplexity: float  # per token
    record_bits: list[float]  # of each record of the held-out text
    record_characters: list[int]
    described: str  # the text that the tokens describe
    context: str  # that each token had
    samples: list[TextSample]

    @staticmethod
    def head(seeds: int) -> list[tuple[str, str]]:
        return [
            ("network", ""),
            ("bits per character", "95 % interval" if seeds == 1 else "over the seeds"),
            ("difference", "to the row before"),
            ("perplexity", "per token"),
            ("parameters", ""),
            ("trained on", "tokens, minutes"),
            ("training", "tokens/s"),
        ]

    def cells(self) -> list[tuple[str, str]]:
        bits = (f"{self.bits.score:.3f}", f"{self.bits.low:.3f} to {self.bits.high:.3f}")
        return [bits, (f"{self.perplexity:,.2f}", "")]

    def scores(self) -> dict[str, float]:
        return {
            "bits_per_character": self.bits.score,
            "bits_per_character_low": self.bits.low,
            "bits_per_character_high": self.bits.high,
            "perplexity": self.perplexity,
        }


class LanguageModels(Networks[LanguageMeasures]):
    """Language models, measured by their bits per character."""

    metric = "bits per character"

    def measure(self, entry: Entry, folder: Path) -> tuple[LanguageMeasures, TextBundle]:
        bundle, settings = load_text_bundle(folder, "language"), self.config.evaluate

        def measure(common: Common) -> LanguageMeasures:
            shards, records, stride = self.config.shard_dir, settings.sentences, settings.stride
            evaluation = evaluate_text_bundle(
                bundle, shards, settings.split, stride=stride, records=records, samples=SAMPLES
            )
            bits = interval(evaluation, settings.bootstrap)
            logger.info(f"{entry.label}: {bits.score:.4f} bits per character")
            return LanguageMeasures(
                **common,
                bits=bits,
                perplexity=evaluation.figures()["perplexity"],
                record_bits=(evaluation.total / math.log(2)).tolist(),
                record_characters=evaluation.characters.tolist(),
                described=evaluation.described,
                context=evaluation.context,
                samples=evaluation.samples,
            )

        depends = {name: getattr(settings, name) for name in ("split", "sentences", "stride", "bootstrap")}
        measures = measured(self.config, entry, bundle, LanguageMeasures, depends, measure)
        for first, *_ in self.runs.values():
            if (measures.described, measures.record_characters) != (first.described, first.record_characters):
                raise UserError(
                    f"models: {first.label} describes the text {first.described}, {measures.label} "
                    f"{measures.described}: their bits per character cannot be compared"
                )
        return measures, bundle

    def over_seeds(self, runs: Sequence[LanguageMeasures]) -> LanguageMeasures:
        """Their lowest and highest bits are the interval."""
        if len(runs) == 1:
            return runs[0]
        bits = [run.bits.score for run in runs]
        perplexity = math.exp(float(np.mean([math.log(run.perplexity) for run in runs])))
        return replace(runs[0], bits=Interval(float(np.mean(bits)), min(bits), max(bits)), perplexity=perplexity)

    def draw(self, runs: Sequence[LanguageMeasures]) -> tuple[Floats, Floats]:
        return resample_bits([(run.record_bits, run.record_characters) for run in runs], self.samples)

    def titles(self, corpus: str) -> tuple[str, str, str]:
        records = len(next(iter(self.measures.values())).record_bits)
        return f"{len(self.measures)} language models on {corpus}", plural(records, "record"), "text"

    def pictures(self) -> Iterator[Picture]:
        """Yields the scores, and the curves of those with a journal."""
        bits = {label: measures.bits for label, measures in self.measures.items()}
        scored = "; ".join(f"{label} {interval.score:.3f}" for label, interval in bits.items())
        drawn = draw_scores(list(bits), {"bits per character": list(bits.values())}, 3, "Bits per character")
        text = f"Lower is better. {self.spread()}"
        yield picture("scores", "quality", "Bits per character", text, f"Bits per character: {scored}", drawn)
        if self.records:
            yield curves(self.records, list(bits))

    def shown(self) -> list[Sample]:
        samples = {label: measures.samples for label, measures in self.measures.items()}
        return [
            Sample(
                first.prompt or "(the beginning of a text)",
                first.truth or "–",
                {label: own[number].text for label, own in samples.items()},
                ("given", "the text itself"),
            )
            for number, first in enumerate(next(iter(samples.values())))
        ]

    def spread(self) -> str:
        """Describes the intervals."""
        seeds = self.config.compare.seeds
        if seeds > 1:
            return f"Intervals reach from the best to the worst of {seeds} seeds of networks trained here."
        return (
            f"Intervals: 95 % of {self.samples:,} sets resampled from the records. They cover the choice of "
            f"the text alone: from another seed a network may score higher or lower."
        )

    def notes(self, tested: int) -> list[str]:
        contexts = "; ".join(f"{label}: {measures.context}" for label, measures in self.measures.items())
        return [
            f"Bits per character are those of the whole text, with unknown words spelled out. {self.spread()}",
            f"Context of each token: {contexts}. Speeds are those of the machine that this ran on, with everything "
            f"else that ran there. Continuations are drawn at temperature 0.8.",
        ]


def interval(evaluation: TextEvaluation, samples: int) -> Interval:
    """Returns bits per character and the range of 95 % of `samples` sets of records, drawn with replacement."""
    own = (evaluation.total / math.log(2)).tolist(), evaluation.characters.tolist()
    exact, drawn = resample_bits([own], max(1, samples))
    score = float(exact[0])
    if samples < 2:
        return Interval(score, score, score)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return Interval(score, float(low), float(high))
