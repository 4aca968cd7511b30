"""Translation networks on one page: their scores, also by length, what they attend to, and every line.

Quality against the length of the source sentence (figure 2 of Bahdanau et al. 2015). BLEU says little about a network
that is rarely right. Its surprise at the reference can be measured for any network, and needs no search.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.device import pick_device
from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.plural import plural
from dragoman.model.text.letters import words_of
from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.comparison.figures import attention, curves
from dragoman.pipelines.comparison.measures import Common, Measures, measured
from dragoman.pipelines.comparison.networks import Networks
from dragoman.pipelines.comparison.page import Sample
from dragoman.pipelines.comparison.pictures import (
    LengthScore,
    Picture,
    describe_length,
    draw_length,
    draw_scores,
    format_interval,
    picture,
)
from dragoman.pipelines.comparison.samples import samples
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.significance import Floats, Interval, Metric, draw_seeds, interval, score_resampled
from dragoman.pipelines.evaluation.translation import TranslationEvaluation
from dragoman.pipelines.tasks.translation_release import evaluate

logger = logging.getLogger(__name__)
STEP = 5  # words in a bucket with enough sentences
FEWEST = 20  # sentences in a bucket: fewer give no useful BLEU


def length_buckets(sources: Sequence[str], step: int = STEP, fewest: int = FEWEST) -> list[list[int]]:
    """Groups row numbers by the source's length in words, in buckets of `step` lengths.

    A bucket with fewer than `fewest` sentences takes in the next lengths; the rest joins the last bucket."""
    by_step: dict[int, list[int]] = {}
    for row, text in enumerate(sources):
        by_step.setdefault(max(0, len(words_of(text)) - 1) // step, []).append(row)
    buckets: list[list[int]] = []
    held: list[int] = []
    for place in sorted(by_step):
        held += by_step[place]
        if len(held) >= fewest:
            buckets.append(held)
            held = []
    if held:
        buckets[-1:] = [[*buckets[-1], *held]] if buckets else [held]
    return buckets


def scores_by_length(
    sources: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[str],
    log_probabilities: Sequence[float],
    tokenize: str,
    samples: int = 1000,
) -> list[LengthScore]:
    """Returns every bucket's BLEU with its bootstrap interval, and its surprise; the shortest sentences first.

    `log_probabilities`: of the references. The surprise is per character, not per token, so that networks with
    different vocabularies can be compared.
    """
    scores = []
    for rows in length_buckets(sources):
        words = [len(words_of(sources[row])) for row in rows]
        ours, gold = [hypotheses[row] for row in rows], [references[row] for row in rows]
        intervals = interval(ours, gold, "bleu", tokenize, samples)
        surprise = -sum(log_probabilities[row] for row in rows) / max(1, sum(map(len, gold)))
        scores.append(LengthScore(min(words), max(words), len(rows), sum(words) / len(rows), intervals, surprise))
    return scores


@dataclass(kw_only=True)
class TranslationMeasures(Measures):
    """The measures of one translation network."""

    step, digits, highest = "bleu_won", 1, (1, 3, 6, 7)

    run: str  # name of the run that trained the network
    bleu: Interval
    chrf: Interval
    lengths: list[LengthScore]
    signatures: dict[str, str]
    sentences_per_second: float
    engine: str
    beam: int
    length_penalty: float
    hypotheses: list[str]

    @staticmethod
    def head(seeds: int) -> list[tuple[str, str]]:
        return [
            ("network", ""),
            ("BLEU", "95 % interval"),
            ("won", "over the row before"),
            ("chrF", "95 % interval"),
            ("parameters", ""),
            ("trained on", "target tokens, minutes"),
            ("training", "tokens/s"),
            ("decoding", "sentences/s"),
        ]

    def cells(self) -> list[tuple[str, str]]:
        scores = ((each.score, each.low, each.high) for each in (self.bleu, self.chrf))
        cells = [(f"{score:z.1f}", f"{low:z.1f} to {high:z.1f}") for score, low, high in scores]
        return [*cells, (f"{self.sentences_per_second:,.1f}", f"beam {self.beam}")]

    def scores(self) -> dict[str, float]:
        values = {"decoding_sentences_per_second": self.sentences_per_second}
        for name, each in (("bleu", self.bleu), ("chrf", self.chrf)):
            values |= {name: each.score, f"{name}_low": each.low, f"{name}_high": each.high}
        return values


class TranslationNetworks(Networks[TranslationMeasures]):
    """Networks that translate, measured by BLEU and chrF."""

    metric = "bleu"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        settings = config.evaluate
        self.sources, self.references = held_out(config.shard_dir, settings.split, config.languages, settings.sentences)
        self.tokenize = tokeniser(settings.tokenize, config.languages[1])

    def measure(self, entry: Entry, folder: Path) -> tuple[TranslationMeasures, TranslationBundle]:
        config, bundle, names = self.config, load_bundle(folder), ("split", "sentences", "tokenize", "bootstrap")
        depends = {
            "engine": config.compare.engine,
            "decode": asdict(config.decode),
            **{name: getattr(config.evaluate, name) for name in names},
        }

        def measure(common: Common) -> TranslationMeasures:
            """Decodes the held-out set and scores it."""
            settings = replace(config.evaluate, engine=config.compare.engine, samples=0)
            evaluation = evaluate(replace(config, evaluate=settings), bundle)
            assert isinstance(evaluation, TranslationEvaluation), "entries that denoise are refused"
            if evaluation.references != self.references:
                raise UserError(f"{entry.label}: its held-out references are not those of the others")
            device = str(pick_device(config.cluster.device))
            scored = open_scorer(bundle, device).score(self.sources, self.references, too_long="truncate")
            log_probabilities = [score.log_probability for score in scored]
            hypotheses, texts = evaluation.hypotheses, (evaluation.hypotheses, self.references)
            logger.info(f"{entry.label}: {evaluation.scores.lines['bleu']}")
            return TranslationMeasures(
                **common,
                run=str(dict(bundle.facts.get("run") or {}).get("name", "")),
                bleu=interval(*texts, "bleu", self.tokenize, self.samples),
                chrf=interval(*texts, "chrf", self.tokenize, self.samples),
                lengths=scores_by_length(
                    self.sources, self.references, hypotheses, log_probabilities, self.tokenize, self.samples
                ),
                signatures={metric: evaluation.scores.signatures[metric] for metric in ("bleu", "chrf")},
                sentences_per_second=evaluation.speed,
                engine=evaluation.engine,
                beam=evaluation.decode.beam,
                length_penalty=evaluation.decode.alpha,
                hypotheses=hypotheses,
            )

        return measured(config, entry, bundle, TranslationMeasures, depends, measure), bundle

    def over_seeds(self, runs: Sequence[TranslationMeasures]) -> TranslationMeasures:
        """The intervals are over sentences and seeds."""
        if len(runs) == 1 or self.samples < 2:
            return runs[0]

        def of(metric: Metric) -> Interval:
            exact, drawn = self.draw(runs, metric)
            low, high = np.percentile(draw_seeds(drawn), (2.5, 97.5))
            return Interval(float(exact.mean()), max(0.0, float(low)), min(100.0, float(high)))  # widened past it

        return replace(runs[0], bleu=of("bleu"), chrf=of("chrf"))

    def draw(self, runs: Sequence[TranslationMeasures], metric: Metric = "bleu") -> tuple[Floats, Floats]:
        hypotheses = [run.hypotheses for run in runs]
        return score_resampled(hypotheses, self.references, metric, self.tokenize, self.samples)

    def titles(self, corpus: str) -> tuple[str, str, str]:
        title = f"{len(self.measures)} networks on {corpus}, {' to '.join(self.config.languages)}"
        return title, plural(len(self.sources), "sentence"), "batches in the same order"

    def pictures(self) -> Iterator[Picture]:
        """Yields the scores, the curves of those with a journal, the scores by length, and the attention."""
        labels, every = list(self.measures), self.measures.values()
        scores = {"BLEU": [measures.bleu for measures in every], "chrF": [measures.chrf for measures in every]}
        text = "Dots are the scores of the whole set; lines reach as far as 95 % of resampled sets' scores."
        if any(len(runs) > 1 for runs in self.runs.values()):
            text = "Dots are means over seeds; lines cover 95 % of resampled sentences and seeds."
        yield picture("scores", "quality", "Quality", text, describe_scores(list(every)), draw_scores(labels, scores))
        if self.records:
            yield curves(self.records, labels)
        lengths = {label: measures.lengths for label, measures in self.measures.items()}
        said = describe_length(lengths)
        text = (
            "A fixed context stores every sentence in one vector of the same size; attention reads a vector per "
            f"word. Left: BLEU, after figure 2 of Bahdanau et al. 2015; right: how much the reference surprises each "
            f"network, which also separates weak networks. {said}"
        )
        yield picture("length", "length", "Quality against length", text, said, draw_length(lengths))
        yield from attention(self.config, self.bundles, self.sources)

    def shown(self) -> list[Sample]:
        hypotheses = {label: measures.hypotheses for label, measures in self.measures.items()}
        return samples(self.sources, self.references, hypotheses)

    def notes(self, tested: int) -> list[str]:
        every, seeds = list(self.measures.values()), self.config.compare.seeds
        first, engines = every[0], ", ".join(sorted({measures.engine for measures in every}))
        penalties = ", ".join(f"{measures.label} {measures.length_penalty:g}" for measures in every)
        covered = (
            "They cover the choice of the sentences alone: from another seed a network may score higher or lower."
            if seeds == 1
            else f"Of networks trained here they cover the sentences and {seeds} seeds, both resampled; of those "
            f"taken as they stand the sentences alone."
        )
        return [
            f"BLEU {first.signatures['bleu']}; chrF {first.signatures['chrf']}. Intervals: 95 % of "
            f"{self.samples:,} sets resampled from the sentences; p: two-sided by Student's t, its standard "
            f"error from resampled sentences and seeds, and behind it as Holm (1979) corrects it for the "
            f"{tested} comparisons of networks with several seeds. {covered}",
            f"Decoding: {engines}; beam {first.beam}; length penalty chosen on the validation set: {penalties}. Speeds "
            f"are those of the machine that this ran on, with everything else that ran there.",
        ]


def describe_scores(every: Sequence[TranslationMeasures]) -> str:
    return "; ".join(
        f"{measures.label} BLEU {format_interval(measures.bleu)}, chrF {format_interval(measures.chrf)}"
        for measures in every
    )
