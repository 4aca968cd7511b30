"""The measures of one network, stored in the comparison's folder, where a restart finds them."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from dragoman.conf import compose
from dragoman.model.bundles.directory import Bundle
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.device import pick_device
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.schema import build
from dragoman.model.shards.manifest import manifest_hash
from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.comparison.intervals import Interval, interval
from dragoman.pipelines.comparison.lengths import LengthScore, scores_by_length
from dragoman.pipelines.comparison.speed import TrainingRecord, training_record
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.translation import Evaluation
from dragoman.pipelines.tasks.translation_release import evaluate

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
        found = {
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
            found |= {
                "training_tokens": float(record.tokens),
                "training_minutes": record.minutes,
                "training_tokens_per_second": record.tokens_per_second,
            }
        return found


def measure(
    config: Config, one: Entry, directory: Path, references: Sequence[str]
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
    path = place(config, one.label)
    known = read(path, Measures)
    if known is not None and known.key == key:
        logger.info(f"{one.label}: measured before ({path})")
        return known, bundle
    found = measure_network(config, one, bundle, key, references)
    write(path, found)
    return found, bundle


def measure_network(
    config: Config, one: Entry, bundle: TranslationBundle, key: str, references: Sequence[str]
) -> Measures:
    """Decodes the held-out set and scores it."""
    settings = config.evaluate
    asked = replace(config, evaluate=replace(settings, engine=config.compare.engine, samples=0, stored=False))
    evaluation: Evaluation = evaluate(asked, bundle).details
    if evaluation.references != list(references):
        raise UserError(f"{one.label}: its held-out references are not those of the others")
    name = tokeniser(settings.tokenize, bundle.languages[1])
    device = str(pick_device(config.cluster.device))
    scored = open_scorer(bundle, device).score(evaluation.sources, references, too_long="truncate")
    log_probabilities = [one.log_probability for one in scored]
    texts = evaluation.hypotheses, references
    logger.info(f"{one.label}: {evaluation.scores.lines['bleu']}")
    return Measures(
        label=one.label,
        architecture=bundle.architecture,
        trained_here=one.config is not None,
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


def write(path: Path, found: Any) -> None:
    """Writes the measures atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, json.dumps(asdict(found), ensure_ascii=False, indent=1) + "\n")
