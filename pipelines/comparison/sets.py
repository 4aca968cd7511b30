"""`dragoman evaluate evaluate.sets=...`: one or several systems on several test sets.

Translations are saved once; scores, checks, comparisons and the page of `evaluate.against` are made of them.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.columns import columns
from dragoman.model.device import pick_device
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.inference.translator import open_translator
from dragoman.model.languages import same_pair
from dragoman.model.plural import plural
from dragoman.model.runs import paths
from dragoman.model.settings import DecodeConfig
from dragoman.model.shards.manifest import has_manifest, read_manifest
from dragoman.pipelines.comparison.lines import lines_of
from dragoman.pipelines.comparison.page import Report, render
from dragoman.pipelines.comparison.table import Table
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.base import Evaluation
from dragoman.pipelines.evaluation.checks import Check, checks_record, checks_report, compare_checks, run_checks
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.metrics import LABELS
from dragoman.pipelines.evaluation.sets.comet import Comet
from dragoman.pipelines.evaluation.sets.metricx import MetricX
from dragoman.pipelines.evaluation.sets.read import HeldOutSet, read_sets
from dragoman.pipelines.evaluation.sets.scores import Judge, SetScores, score_set, tables
from dragoman.pipelines.evaluation.sets.stored import translate_once
from dragoman.pipelines.evaluation.significance import paired_bootstrap
from dragoman.pipelines.evaluation.tuning import settle_length_penalty
from dragoman.pipelines.settings import CheckName, MetricName
from dragoman.pipelines.tasks.openings import Held, held_split, open_held
from dragoman.pipelines.tasks.translation_release import stored_translations

logger = logging.getLogger(__name__)
Rivals = Mapping[str, TranslationBundle]  # by label
RESAMPLED: tuple[Literal["bleu", "chrf"], ...] = ("bleu", "chrf")  # metrics with a paired test


@dataclass(frozen=True)
class OnSet:
    """A model on one set."""

    held_out: HeldOutSet
    texts: list[str]  # its translations
    scores: SetScores
    checks: dict[CheckName, Check]  # for faults of meaning


@dataclass(frozen=True)
class SetsEvaluation(Evaluation):
    """A model on every set."""

    split = "sets"  # evaluation.sets.json
    label: str
    bundle: TranslationBundle
    engine: str
    decode: DecodeConfig
    on: list[OnSet]

    def report(self) -> str:
        head = (
            f"{self.bundle.pair}, {plural(len(self.on), 'set')}: {self.label}, beam {self.decode.beam}, length "
            f"penalty {self.decode.alpha:g}, {self.engine}"
        )
        checks = [
            checks_report(each.checks, each.held_out.sources, each.texts, f"{each.held_out.name}: checks")
            for each in self.on
        ]
        return "\n\n".join([head, tables([each.scores for each in self.on]), *checks])

    def metrics(self) -> dict[str, float]:
        scores = [each.scores for each in self.on]
        return {f"{score.name}_{metric}": value for score in scores for metric, value in score.scores.items()}

    def rows(self) -> list[dict[str, Any]]:
        scores = [each.scores for each in self.on]
        return [
            {"set": score.name, "sentences": score.sentences, "references": score.references, "scores": score.scores}
            for score in scores
        ]

    def record(self) -> dict[str, Any]:
        return {
            "pair": self.bundle.pair,
            "sets": [
                {
                    "digest": each.held_out.digest,
                    "places": each.held_out.places,  # where `dragoman verify` reads it
                    "split": each.held_out.split,
                    **each.scores.record(),
                    "checks": checks_record(each.checks, each.held_out.sources, each.held_out.references, each.texts),
                }
                for each in self.on
            ],
            "engine": self.engine,
            "decode": asdict(self.decode),
            "bundle": self.bundle.digest,
        }


def write_page(folder: Path, name: str, models: Sequence[SetsEvaluation]) -> Path:
    """Writes the page of models on the same sets, the baseline first and the candidate last; returns its path.

    `name`: the split, or `sets`.
    """
    rows, compared = [], []
    for parts in zip(*(model.on for model in models), strict=True):
        for model, part in zip(models, parts, strict=True):
            scores = part.scores
            size = (f"{scores.sentences:,}", plural(scores.references, "reference"))
            figures = [(f"{value:.2f}", "") for value in scores.scores.values()]
            rows.append([(model.label, scores.name), size, *figures])
        texts = {model.label: part.texts for model, part in zip(models, parts, strict=True)}
        compared.append((parts[0].held_out, texts))
    metrics = models[0].on[0].scores.signatures
    head = [("system", "set"), ("sentences", ""), *((LABELS[metric], "") for metric in metrics)]
    names, bundle = [model.label for model in models], models[0].bundle
    made = ", ".join(f"{model.label} {model.bundle.digest[:12]} ({model.engine})" for model in models)
    report = Report(
        title=f"{names[-1]} against {', '.join(names[:-1])}",
        lead=f"{bundle.pair}, {plural(len(compared), 'test set')}: the scores, and the lines that differ.",
        table=Table(head, rows, {}, {model.label: model.bundle.digest for model in models}),
        pictures=(),
        lines=lines_of(compared, bundle.languages),
        notes=[
            "; ".join(f"{LABELS[metric]} {signature}" for metric, signature in metrics.items()) + ".",
            f"Bundles: {made}.",
            "Faults of meaning are found by rules: docs/evaluation.md says what each finds. Made by: dragoman evaluate",
        ],
    )
    page = paths.lines_page(folder, name)
    atomic_write(page, render(report))
    return page


def evaluate_sets(
    config: Config,
    bundle: TranslationBundle,
    members: Sequence[Path],
    folder: Path,
    run: str,
    rivals: Rivals,
    say: Callable[[str], object],
) -> tuple[SetsEvaluation, str]:
    """Scores a bundle on the sets of `evaluate.sets`, stores the record, and compares it with `rivals` by label.

    `say` gets the report as soon as it is known. `members`: the folders of the bundle, or of an ensemble's. `run`: the
    name of the bundle's run; `folder` holds its records.

    Raises UserError: a set cannot be read, a rival is of another pair, or a setting does not fit.
    """
    settings = config.evaluate
    check_settings(config, bundle, rivals)
    judges = open_judges(config)
    sets = read_sets(settings.sets, bundle.languages, settings.split, settings.sentences, config.paths.local)
    learned = [*members, *(rival.directory for rival in rivals.values())]
    openings = [str(open_held(config, held_of(held_out), folder, run, learned)) for held_out in sets]
    ours = on_sets(config, run, bundle, sets, judges)
    say("\n".join([ours.report(), "", *openings]))
    (path,) = ours.write(folder)
    logger.info(f"kept in {path}")
    others = [on_sets(config, label, rival, sets, judges) for label, rival in rivals.items()]
    if others:
        page = write_page(folder, ours.split, [*others, ours])
        logger.info(f"the translations are compared line by line in {page}")
    return ours, "\n\n".join(compare_models(config, ours, other) for other in others)


def page_of_split(config: Config, bundle: TranslationBundle, folder: Path, run: str, rivals: Rivals) -> Path:
    """Writes the page that compares a bundle with others on `evaluate.split` of the shards; returns its path."""
    settings = config.evaluate
    name = settings.split
    sets = read_sets({name: config.paths.shards}, bundle.languages, name, settings.sentences, config.paths.local)
    models, judges = [*rivals.items(), (run, bundle)], open_judges(config)
    return write_page(folder, name, [on_sets(config, label, model, sets, judges) for label, model in models])


def open_judges(config: Config) -> dict[str, Judge]:
    """Returns the learned metrics among `evaluate.metrics`."""
    settings, device = config.evaluate, pick_device(config.cluster.device)
    openers: dict[MetricName, Callable[[Path], Judge]] = {
        "comet": lambda folder: Comet(folder, device),
        "metricx": lambda folder: MetricX(folder, settings.metricx_form, device),
    }
    folders = {name: getattr(settings, name) for name in openers if name in settings.metrics}
    for name, folder in folders.items():
        if folder is None:
            raise UserError(
                f"evaluate.{name}: the metric {name} needs a model; evaluate.{name}=FOLDER (docs/evaluation.md)"
            )
    return {name: openers[name](config.paths.local(folder)) for name, folder in folders.items()}


def check_settings(config: Config, bundle: TranslationBundle, rivals: Rivals) -> None:
    """Raises UserError for settings that do not fit the evaluation of sets."""
    settings = config.evaluate
    if not settings.metrics:
        raise UserError(f"evaluate.metrics=[]: choose at least one of {', '.join(LABELS)}")
    if settings.alignment:
        raise UserError("evaluate.alignment=true: test sets have no gold alignment; leave evaluate.sets out")
    for label, rival in rivals.items():
        if not same_pair(rival.pair, bundle.pair):
            raise UserError(f"evaluate.against={label}: translates {rival.pair}, the other model {bundle.pair}")


def held_of(test_set: HeldOutSet) -> Held:
    """Returns the lines of a set, with the first reference of each."""
    held = held_split(test_set.shards, test_set.split, len(test_set.sources)) if test_set.shards is not None else None
    return held or Held(test_set.name, (test_set.sources, test_set.first), test_set.digest)


def on_sets(
    config: Config, label: str, bundle: TranslationBundle, sets: Sequence[HeldOutSet], judges: Mapping[str, Judge]
) -> SetsEvaluation:
    """Scores and checks a bundle's translations of every set, those that are saved or new ones."""
    settings = config.evaluate
    valid = None
    if config.decode.length_penalty == bundle.decode.length_penalty == "auto" and has_manifest(config.shard_dir):
        texts = read_manifest(config.shard_dir).texts
        valid = held_out(config.shard_dir, "valid", bundle.languages) if "valid" in texts else None
    decode = settle_length_penalty(replace(config.decode, nbest=1), bundle, valid, settings.length_penalties)
    translator, parts = open_translator(bundle, settings.engine), []
    for test_set in sets:
        made = translate_once(translator, test_set.sources, decode, bundle.digest, stored_translations(config))
        for warning in made.warnings:
            logger.warning(f"{label}, {test_set.name}: {warning}")
        scores = score_set(test_set, made.texts, settings.metrics, bundle.languages[1], settings.tokenize, judges)
        checks = run_checks(test_set.sources, test_set.references, made.texts, bundle.languages)
        parts.append(OnSet(test_set, made.texts, scores, checks))
    return SetsEvaluation(label, bundle, translator.engine.name, decode, parts)


def compare_models(config: Config, ours: SetsEvaluation, other: SetsEvaluation) -> str:
    """Returns a table of both models' scores on every set, with the p-value of each difference, and their faults."""
    settings, rows, faults = config.evaluate, [], []
    for part, theirs in zip(ours.on, other.on, strict=True):
        name, (first, *more) = part.scores.name, part.held_out.streams()
        differences = [each for each in compare_checks(part.checks, theirs.checks) if each.candidate or each.champion]
        faults.append(f"{name}: {'; '.join(map(str, differences)) or 'no faults of meaning'}")
        for metric in (metric for metric in RESAMPLED if metric in settings.metrics):
            test = paired_bootstrap(
                theirs.texts,
                part.texts,
                [text or "" for text in first],
                ours.bundle.languages[1],
                settings.tokenize,
                settings.bootstrap,
                metric,
                more,
            )
            figures = (f"{test.baseline:.2f}", f"{test.candidate:.2f}", f"{test.difference:+.2f}")
            rows.append([name, test.metric, *figures, f"{test.p_value:.4f}"])
    head = ["set", "metric", other.label, ours.label, "difference", "p"]
    return "\n".join([*columns([head, *rows], right=True), "", *faults])
