"""Language models on one page: bits per character of a held-out text, what they were trained on, how they go on."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dragoman.conf import compose
from dragoman.model.bundles.language import TextBundle, load_text_bundle
from dragoman.model.errors import UserError
from dragoman.model.plural import plural
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.comparison.figures import curves, picture
from dragoman.pipelines.comparison.measures import TrainingRecord, place, read, record_of, write
from dragoman.pipelines.comparison.page import Report, Sample
from dragoman.pipelines.comparison.pictures import Picture, draw_scores
from dragoman.pipelines.comparison.seeds import Step, steps
from dragoman.pipelines.comparison.table import Table, amount, origin_of, step_cell, step_metrics, trained_cells
from dragoman.pipelines.comparison.texts import lead, origin
from dragoman.pipelines.comparison.training import bundle_of
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.language.evaluation import TextEvaluation, evaluate_text_bundle
from dragoman.pipelines.evaluation.language.samples import TextSample
from dragoman.pipelines.evaluation.significance import SEED, Floats, Interval

Bits = tuple[Sequence[float], Sequence[int]]  # bits and characters of each record


def resample_bits(systems: Sequence[Bits], samples: int) -> tuple[Floats, Floats]:
    """Returns (systems,) bits per character of the text and (samples, systems) of sets of records, the same for all."""
    bits, sizes = (np.array([system[place] for system in systems], np.float64) for place in (0, 1))
    rng = np.random.default_rng(SEED)
    drawn = np.empty((samples, len(systems)))
    for number in range(samples):
        rows = rng.integers(0, sizes.shape[1], sizes.shape[1])
        drawn[number] = bits[:, rows].sum(1) / sizes[:, rows].sum(1)
    return bits.sum(1) / sizes.sum(1), drawn


logger = logging.getLogger(__name__)

SAMPLES = 4  # texts that every network continues
LOWEST = (1, 3)  # columns whose smallest number is the best


@dataclass
class LanguageMeasures:
    """The measures of one language model: plain values, stored as JSON."""

    label: str
    architecture: str
    trained_here: bool  # within the comparison's budget
    bundle: str  # sha256
    parameters: int
    bits: Interval  # per character
    perplexity: float  # per token
    record_bits: list[float]  # of each record of the held-out text
    record_characters: list[int]
    described: str  # the text that the tokens describe
    context: str  # that each token had
    samples: list[TextSample]
    key: str  # hash of everything that the numbers depend on

    def figures(self, record: TrainingRecord | None) -> dict[str, float]:
        """Returns the table's row as metrics."""
        values = {
            "bits_per_character": self.bits.score,
            "bits_per_character_low": self.bits.low,
            "bits_per_character_high": self.bits.high,
            "perplexity": self.perplexity,
            "parameters": float(self.parameters),
        }
        if record is not None:
            values |= {
                "training_tokens": float(record.tokens),
                "training_minutes": record.minutes,
                "training_tokens_per_second": record.tokens_per_second,
            }
        return values


def language_report(config: Config, entries: Sequence[Entry]) -> Report:
    """Trains and measures language models; returns their page's content.

    Raises UserError: two models whose tokens describe different texts.
    """
    runs: dict[str, list[LanguageMeasures]] = {}
    records: dict[str, TrainingRecord] = {}
    for number, entry in enumerate(entries, 1):
        logger.info(f"{number} of {len(entries)}: {entry.label}")
        bundle = load_text_bundle(bundle_of(entry), "language")
        runs.setdefault(entry.again or entry.label, []).append(measure(config, entry, bundle))
        training = None if entry.again else record_of(bundle)
        if training is not None:
            records[entry.label] = training
    every = [over_seeds(own) for own in runs.values()]
    for other in every[1:]:
        if (other.described, other.record_characters) != (every[0].described, every[0].record_characters):
            raise UserError(
                f"models: {every[0].label} describes the text {every[0].described}, {other.label} {other.described}: "
                f"their bits per character cannot be compared"
            )
    samples = config.evaluate.bootstrap

    def draw(runs: Sequence[LanguageMeasures]) -> tuple[Floats, Floats]:
        return resample_bits([(run.record_bits, run.record_characters) for run in runs], samples)

    gains = steps(runs, "bits per character", draw, samples)
    manifest = read_manifest(config.shard_dir)
    return Report(
        title=f"{len(every)} language models on {manifest.corpus}",
        lead=lead(config, every, plural(len(every[0].record_bits), "record"), "text"),
        table=table_of(every, records, gains, config.compare.seeds),
        pictures=pictures(config, every, records),
        samples=[
            Sample(
                first.prompt or "(the beginning of a text)",
                first.truth or "–",
                {measures.label: measures.samples[number].text for measures in every},
                ("given", "the text itself"),
            )
            for number, first in enumerate(every[0].samples)
        ],
        notes=notes(config, every),
    )


def measure(config: Config, entry: Entry, bundle: TextBundle) -> LanguageMeasures:
    """Measures the bundle on the held-out text, unless stored measures exist."""
    settings = config.evaluate
    key = compose.fingerprint(
        {
            "bundle": bundle.digest,
            "shards": manifest_hash(config.shard_dir),
            **{name: getattr(settings, name) for name in ("split", "sentences", "stride", "bootstrap")},
        }
    )
    path = place(config, entry.label)
    stored = read(path, LanguageMeasures)
    if stored is not None and stored.key == key:
        logger.info(f"{entry.label}: measured before ({path})")
        return stored
    evaluation = evaluate_text_bundle(
        bundle, config.shard_dir, settings.split, stride=settings.stride, records=settings.sentences, samples=SAMPLES
    )
    measures = LanguageMeasures(
        label=entry.label,
        architecture=bundle.architecture,
        trained_here=entry.config is not None,
        bundle=bundle.digest,
        parameters=bundle.network.parameter_count(),
        bits=interval(evaluation, settings.bootstrap),
        perplexity=evaluation.figures()["perplexity"],
        record_bits=(evaluation.total / math.log(2)).tolist(),
        record_characters=evaluation.characters.tolist(),
        described=evaluation.described,
        context=evaluation.context,
        samples=evaluation.samples,
        key=key,
    )
    logger.info(f"{entry.label}: {measures.bits.score:.4f} bits per character")
    write(path, measures)
    return measures


def interval(evaluation: TextEvaluation, samples: int) -> Interval:
    """Returns bits per character and the range of 95 % of `samples` sets of records, drawn with replacement."""
    own = (evaluation.total / math.log(2)).tolist(), evaluation.characters.tolist()
    exact, drawn = resample_bits([own], max(1, samples))
    score = float(exact[0])
    if samples < 2:
        return Interval(score, score, score)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return Interval(score, float(low), float(high))


def over_seeds(runs: Sequence[LanguageMeasures]) -> LanguageMeasures:
    """Returns the first run's measures with means over the runs; their lowest and highest bits are the interval."""
    if len(runs) == 1:
        return runs[0]
    bits = [run.bits.score for run in runs]
    perplexity = math.exp(float(np.mean([math.log(run.perplexity) for run in runs])))
    return replace(runs[0], bits=Interval(float(np.mean(bits)), min(bits), max(bits)), perplexity=perplexity)


def table_of(
    every: Sequence[LanguageMeasures], records: Mapping[str, TrainingRecord], gains: Mapping[str, Step], seeds: int
) -> Table:
    """Returns the table, one row per network; a difference below 0 is for the better."""
    return Table(
        (
            ("network", ""),
            ("bits per character", "95 % interval" if seeds == 1 else "over the seeds"),
            ("difference", "to the row before"),
            ("perplexity", "per token"),
            ("parameters", ""),
            ("trained on", "tokens, minutes"),
            ("training", "tokens/s"),
        ),
        [
            [
                (language_measures.label, origin_of(language_measures.trained_here, seeds)),
                (
                    f"{language_measures.bits.score:.3f}",
                    f"{language_measures.bits.low:.3f} to {language_measures.bits.high:.3f}",
                ),
                step_cell(gains.get(language_measures.label), 3),
                (f"{language_measures.perplexity:,.2f}", ""),
                (amount(language_measures.parameters), ""),
                *trained_cells(records.get(language_measures.label)),
            ]
            for language_measures in every
        ],
        {
            f"{language_measures.label}/{name}": value
            for language_measures in every
            for name, value in (
                language_measures.figures(records.get(language_measures.label))
                | step_metrics("bits_difference", gains.get(language_measures.label))
            ).items()
        },
        {language_measures.label: language_measures.bundle for language_measures in every},
        highest=(6,),
        lowest=LOWEST,
    )


def pictures(
    config: Config, every: Sequence[LanguageMeasures], records: Mapping[str, TrainingRecord]
) -> Sequence[Picture]:
    """Returns the scores, and the curves of those with a journal."""
    logger.info("drawing the pictures")
    labels = [language_measures.label for language_measures in every]
    scored = "; ".join(f"{language_measures.label} {language_measures.bits.score:.3f}" for language_measures in every)
    drawn = draw_scores(
        labels, {"bits per character": [language_measures.bits for language_measures in every]}, 3, "Bits per character"
    )
    text = f"Lower is better. {spread(config)}"
    drawn_pictures = [picture("scores", "quality", "Bits per character", text, f"Bits per character: {scored}", drawn)]
    if records:
        drawn_pictures.append(curves(records, labels))
    return drawn_pictures


def spread(config: Config) -> str:
    """Describes the intervals."""
    if config.compare.seeds > 1:
        return f"Intervals reach from the best to the worst of {config.compare.seeds} seeds of networks trained here."
    return (
        f"Intervals: 95 % of {config.evaluate.bootstrap:,} sets resampled from the records. They cover the choice of "
        f"the text alone: from another seed a network may score higher or lower."
    )


def notes(config: Config, every: Sequence[LanguageMeasures]) -> list[str]:
    """Describes the measurements so that they can be repeated."""
    contexts = "; ".join(f"{language_measures.label}: {language_measures.context}" for language_measures in every)
    return [
        f"Bits per character are those of the whole text, with unknown words spelled out. {spread(config)}",
        f"Context of each token: {contexts}. Speeds are those of the machine that this ran on, with everything else "
        f"that ran there. Continuations are drawn at temperature 0.8.",
        *origin(config, every),
    ]
