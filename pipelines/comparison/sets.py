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
from dragoman.model.runs import journal, paths
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
from dragoman.pipelines.evaluation.sets.stored import System, translate_once
from dragoman.pipelines.evaluation.significance import paired_bootstrap
from dragoman.pipelines.evaluation.tuning import settle_length_penalty
from dragoman.pipelines.settings import CheckName, MetricName
from dragoman.pipelines.tasks.openings import Held, held_split, open_held
from dragoman.pipelines.tasks.translation_release import stored_translations


def write_page(
    folder: Path, name: str, sets: Sequence[HeldOutSet], scored: Sequence[tuple[System, Sequence[SetScores]]]
) -> Path:
    """Writes the page of systems and their scores, the baseline first and the candidate last; returns its path.

    `name`: the split, or `sets`.
    """
    systems = [system for system, _ in scored]
    rows = []
    for place, test_set in enumerate(sets):
        for system, scores in scored:
            set_scores = scores[place]
            figures = [(f"{value:.2f}", "") for value in set_scores.scores.values()]
            row = [
                (system.label, test_set.name),
                (f"{set_scores.sentences:,}", plural(set_scores.references, "reference")),
                *figures,
            ]
            rows.append(row)
    metrics = scored[0][1][0].signatures
    head = [("system", "set"), ("sentences", ""), *((LABELS[metric], "") for metric in metrics)]
    compared = [
        (test_set, {system.label: system.translations[place] for system in systems})
        for place, test_set in enumerate(sets)
    ]
    names = [system.label for system in systems]
    report = Report(
        title=f"{names[-1]} against {', '.join(names[:-1])}",
        lead=f"{systems[0].bundle.pair}, {plural(len(sets), 'test set')}: the scores, and the lines that differ.",
        table=Table(head, rows, {}, {system.label: system.bundle.digest for system in systems}),
        pictures=(),
        lines=lines_of(compared, systems[0].bundle.languages),
        notes=[
            "; ".join(f"{LABELS[metric]} {signature}" for metric, signature in metrics.items()) + ".",
            "Bundles: "
            + ", ".join(f"{system.label} {system.bundle.digest[:12]} ({system.engine})" for system in systems)
            + ".",
            "Faults of meaning are found by rules: docs/evaluation.md says what each finds. Made by: dragoman evaluate",
        ],
    )
    page = paths.lines_page(folder, name)
    atomic_write(page, render(report))
    return page


logger = logging.getLogger(__name__)
Rivals = Mapping[str, TranslationBundle]  # by label
RESAMPLED: tuple[Literal["bleu", "chrf"], ...] = ("bleu", "chrf")  # metrics with a paired test


@dataclass(frozen=True)
class SetsEvaluation(Evaluation):
    """A system's scores on every set."""

    split = "sets"  # evaluation.sets.json
    system: System
    sets: list[HeldOutSet]
    scores: list[SetScores]
    checks: list[dict[CheckName, Check]]  # for faults of meaning

    def report(self) -> str:
        system = self.system
        head = (
            f"{system.bundle.pair}, {plural(len(self.sets), 'set')}: {system.label}, beam {system.decode.beam}, length "
            f"penalty {system.decode.alpha:g}, {system.engine}"
        )
        checks = [
            checks_report(each, held_out.sources, texts, f"{held_out.name}: checks")
            for held_out, each, texts in zip(self.sets, self.checks, system.translations, strict=True)
        ]
        return "\n\n".join([head, tables(self.scores), *checks])

    def metrics(self) -> dict[str, float]:
        return {f"{score.name}_{metric}": value for score in self.scores for metric, value in score.scores.items()}

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"set": score.name, "sentences": score.sentences, "references": score.references, "scores": score.scores}
            for score in self.scores
        ]

    def record(self) -> dict[str, Any]:
        bundle = self.system.bundle
        return {
            "pair": bundle.pair,
            "sets": [
                {
                    "digest": held_out.digest,
                    "places": held_out.places,  # where `dragoman verify` reads it
                    "split": held_out.split,
                    **scores.record(),
                    "checks": checks_record(checks, held_out.sources, held_out.references, texts),
                }
                for held_out, scores, checks, texts in zip(
                    self.sets, self.scores, self.checks, self.system.translations, strict=True
                )
            ],
            "engine": self.system.engine,
            "decode": asdict(self.system.decode),
            "bundle": bundle.digest,
            "run_records": bundle.facts.get("records") or {},
        }


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
    ours = translate_sets(config, run, bundle, sets)
    scores = score_system(config, ours, sets, judges)
    checks = [
        run_checks(held_out.sources, held_out.references, texts, bundle.languages)
        for held_out, texts in zip(sets, ours.translations, strict=True)
    ]
    evaluation = SetsEvaluation(ours, sets, scores, checks)
    say("\n".join([evaluation.report(), "", *openings]))
    (path,) = evaluation.write(folder)
    journal.note_evaluation(folder, path)
    logger.info(f"kept in {path}")
    others = [translate_sets(config, label, rival, sets) for label, rival in rivals.items()]
    if others:
        scored = [(other, score_system(config, other, sets, judges)) for other in others]
        page = write_page(folder, evaluation.split, sets, [*scored, (ours, scores)])
        logger.info(f"the translations are compared line by line in {page}")
    return evaluation, "\n\n".join(compare_systems(config, evaluation, other) for other in others)


def page_of_split(config: Config, bundle: TranslationBundle, folder: Path, run: str, rivals: Rivals) -> Path:
    """Writes the page that compares a bundle with others on `evaluate.split` of the shards; returns its path."""
    settings = config.evaluate
    name = settings.split
    sets = read_sets({name: config.paths.shards}, bundle.languages, name, settings.sentences, config.paths.local)
    systems = [translate_sets(config, label, system, sets) for label, system in [*rivals.items(), (run, bundle)]]
    judges = open_judges(config)
    return write_page(folder, name, sets, [(system, score_system(config, system, sets, judges)) for system in systems])


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


def score_system(
    config: Config, system: System, sets: Sequence[HeldOutSet], judges: Mapping[str, Judge]
) -> list[SetScores]:
    settings, language = config.evaluate, system.bundle.languages[1]
    return [
        score_set(held_out, texts, settings.metrics, language, settings.tokenize, judges)
        for held_out, texts in zip(sets, system.translations, strict=True)
    ]


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


def translate_sets(config: Config, label: str, bundle: TranslationBundle, sets: Sequence[HeldOutSet]) -> System:
    """Returns a bundle's translations of every set, those that are saved or new ones."""
    settings = config.evaluate
    valid = None
    if config.decode.length_penalty == bundle.decode.length_penalty == "auto" and has_manifest(config.shard_dir):
        texts = read_manifest(config.shard_dir).texts
        valid = held_out(config.shard_dir, "valid", bundle.languages) if "valid" in texts else None
    decode = settle_length_penalty(replace(config.decode, nbest=1), bundle, valid, settings.length_penalties)
    translator, translations = open_translator(bundle, settings.engine), []
    for test_set in sets:
        made = translate_once(translator, test_set.sources, decode, bundle.digest, stored_translations(config))
        for warning in made.warnings:
            logger.warning(f"{label}, {test_set.name}: {warning}")
        translations.append(made.texts)
    return System(label, bundle, translator.engine.name, decode, translations)


def compare_systems(config: Config, evaluated: SetsEvaluation, other: System) -> str:
    """Returns a table of both systems' scores on every set, with the p-value of each difference, and their faults."""
    settings, ours, rows, faults = config.evaluate, evaluated.system, [], []
    for place, test_set in enumerate(evaluated.sets):
        theirs = run_checks(test_set.sources, test_set.references, other.translations[place], other.bundle.languages)
        differences = [
            each for each in compare_checks(evaluated.checks[place], theirs) if each.candidate or each.champion
        ]
        faults.append(f"{test_set.name}: {'; '.join(map(str, differences)) or 'no faults of meaning'}")
        first, *more = test_set.streams()
        for metric in (name for name in RESAMPLED if name in settings.metrics):
            test = paired_bootstrap(
                other.translations[place],
                ours.translations[place],
                [text or "" for text in first],
                ours.bundle.languages[1],
                settings.tokenize,
                settings.bootstrap,
                metric,
                more,
            )
            figures = (test.baseline, test.candidate)
            rows.append([test_set.name, LABELS[metric], *(f"{value:.2f}" for value in figures),
                         f"{test.difference:+.2f}", f"{test.p_value:.4f}"])  # fmt: skip
    head = ["set", "metric", other.label, ours.label, "difference", "p"]
    return "\n".join([*columns([head, *rows], right=True), "", *faults])
