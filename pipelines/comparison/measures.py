"""The measures of one network, stored in the comparison's folder, where a restart finds them.

Quality against the length of the source sentence (figure 2 of Bahdanau et al. 2015).

BLEU says little about a network that is rarely right. Its surprise at the reference can be measured for any network,
and needs no search.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from dragoman.conf import compose
from dragoman.model.bundles.directory import Bundle
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.device import pick_device
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.runs import journal, paths
from dragoman.model.schema import build
from dragoman.model.shards.manifest import manifest_hash
from dragoman.model.text.letters import words_of
from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.significance import Interval, interval
from dragoman.pipelines.evaluation.translation import TranslationEvaluation
from dragoman.pipelines.tasks.translation_release import evaluate

PAUSE = 5.0  # a step this many times longer than usual includes an evaluation, a checkpoint or a start


@dataclass
class TrainingRecord:
    """A finished training."""

    steps: int
    tokens: int  # target tokens
    minutes: float  # with evaluations and checkpoints
    tokens_per_second: float  # without them
    validation: list[tuple[int, float, float]] = field(default_factory=list)  # (target tokens, minutes, nats per token)


def training_record(run: Path) -> TrainingRecord | None:
    """Returns the record of a run's directory; None if it has no journal of a network."""
    lines = list(journal.lines(run / paths.STEPS))
    steps = [line for line in lines if "nll" in line and "tokens" in line]
    if not steps:
        return None
    validation, tokens = [], 0
    for line in lines:
        if "valid_loss" in line:
            validation.append((tokens, line["seconds"] / 60, float(line["valid_loss"])))
        else:
            tokens += int(line.get("tokens", 0))
    return TrainingRecord(
        steps=int(steps[-1]["step"]),
        tokens=tokens,
        minutes=float(lines[-1]["seconds"]) / 60,
        tokens_per_second=speed(steps),
        validation=validation,
    )


def speed(steps: Sequence[Mapping[str, Any]]) -> float:
    """Returns target tokens per second of consecutive journal lines, without steps after a pause; 0 if too few."""
    pairs = [
        (float(after["seconds"]) - float(before["seconds"]), int(after["tokens"]))
        for before, after in pairwise(steps)
        if after["step"] == before["step"] + 1
    ]
    usual = median([seconds for seconds, _ in pairs]) if pairs else 0.0
    kept = [(seconds, tokens) for seconds, tokens in pairs if 0 < seconds <= PAUSE * usual]
    return sum(tokens for _, tokens in kept) / sum(seconds for seconds, _ in kept) if kept else 0.0


STEP = 5  # words in a bucket with enough sentences
FEWEST = 20  # sentences in a bucket: fewer give no useful BLEU


@dataclass
class LengthScore:
    """The scores of sentences of similar length."""

    low: int  # source words of the shortest and the longest
    high: int
    sentences: int
    mean: float  # words of the source
    bleu: Interval
    surprise: float  # nats per character of the reference, by teacher forcing


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


logger = logging.getLogger(__name__)
Kind = TypeVar("Kind")


@dataclass
class Measures:
    """Plain values, stored as JSON."""

    label: str
    architecture: str
    trained_here: bool  # within the comparison's budget
    bundle: str  # sha256
    run: str  # name of the run that trained the network
    parameters: int
    bleu: Interval
    chrf: Interval
    lengths: list[LengthScore]
    signatures: dict[str, str]
    sentences_per_second: float
    engine: str
    beam: int
    length_penalty: float
    hypotheses: list[str]
    key: str  # hash of everything that the numbers depend on

    def figures(self, record: TrainingRecord | None) -> dict[str, float]:
        """Returns the table's row as metrics."""
        values = {
            "bleu": self.bleu.score,
            "bleu_low": self.bleu.low,
            "bleu_high": self.bleu.high,
            "chrf": self.chrf.score,
            "chrf_low": self.chrf.low,
            "chrf_high": self.chrf.high,
            "parameters": float(self.parameters),
            "decoding_sentences_per_second": self.sentences_per_second,
        }
        if record is not None:
            values |= {
                "training_tokens": float(record.tokens),
                "training_minutes": record.minutes,
                "training_tokens_per_second": record.tokens_per_second,
            }
        return values


def measure(
    config: Config, entry: Entry, directory: Path, references: Sequence[str]
) -> tuple[Measures, TranslationBundle]:
    """Measures the bundle in `directory` on the held-out set, unless stored measures exist."""
    bundle = load_bundle(directory)
    key = compose.fingerprint(
        {
            "bundle": bundle.digest,
            "shards": manifest_hash(config.shard_dir),
            "engine": config.compare.engine,
            "decode": asdict(config.decode),
            **{name: getattr(config.evaluate, name) for name in ("split", "sentences", "tokenize", "bootstrap")},
        }
    )
    path = place(config, entry.label)
    stored = read(path, Measures)
    if stored is not None and stored.key == key:
        logger.info(f"{entry.label}: measured before ({path})")
        return stored, bundle
    measures = measure_network(config, entry, bundle, key, references)
    write(path, measures)
    return measures, bundle


def measure_network(
    config: Config, entry: Entry, bundle: TranslationBundle, key: str, references: Sequence[str]
) -> Measures:
    """Decodes the held-out set and scores it."""
    settings = config.evaluate
    evaluated = replace(config, evaluate=replace(settings, engine=config.compare.engine, samples=0, stored=False))
    evaluation = evaluate(evaluated, bundle)
    assert isinstance(evaluation, TranslationEvaluation), "entries that denoise are refused"
    if evaluation.references != list(references):
        raise UserError(f"{entry.label}: its held-out references are not those of the others")
    name = tokeniser(settings.tokenize, bundle.languages[1])
    device = str(pick_device(config.cluster.device))
    scored = open_scorer(bundle, device).score(evaluation.sources, references, too_long="truncate")
    log_probabilities = [score.log_probability for score in scored]
    texts = evaluation.hypotheses, references
    logger.info(f"{entry.label}: {evaluation.scores.lines['bleu']}")
    return Measures(
        label=entry.label,
        architecture=bundle.architecture,
        trained_here=entry.config is not None,
        bundle=bundle.digest,
        run=str(dict(bundle.facts.get("run") or {}).get("name", "")),
        parameters=bundle.network.parameter_count(),
        bleu=interval(*texts, "bleu", name, settings.bootstrap),
        chrf=interval(*texts, "chrf", name, settings.bootstrap),
        lengths=scores_by_length(
            evaluation.sources, references, evaluation.hypotheses, log_probabilities, name, settings.bootstrap
        ),
        signatures={metric: evaluation.scores.signatures[metric] for metric in ("bleu", "chrf")},
        sentences_per_second=evaluation.speed,
        engine=evaluation.engine,
        beam=evaluation.decode.beam,
        length_penalty=evaluation.decode.alpha,
        hypotheses=evaluation.hypotheses,
        key=key,
    )


def record_of(bundle: Bundle) -> TrainingRecord | None:
    """Returns the training of a bundle, if its run's journal is beside it."""
    return training_record(bundle.directory.parent)


def place(config: Config, label: str) -> Path:
    """Returns the file of a network's measures."""
    return folder(config) / "measures" / f"{label.replace('/', '-')}.json"


def folder(config: Config) -> Path:
    """Returns the comparison's own run directory."""
    return config.paths.local(config.paths.runs) / config.compare.name


def read(path: Path, kind: type[Kind]) -> Kind | None:
    """Reads stored measures; None if there are none or they are not readable."""
    try:
        return build(kind, json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, ValueError, UserError):
        return None


def write(path: Path, measures: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, json.dumps(asdict(measures), ensure_ascii=False, indent=1) + "\n")
