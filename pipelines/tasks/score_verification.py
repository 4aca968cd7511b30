"""Checks the scores of a run: all are computed again, from the stored answers or by the bundle itself.

Translations are stored, and their scores follow from them; so the bundle translates again: every sentence if that took
under a minute, else a sample. A stored text that comes out otherwise must be about as likely to the network as the new
one: another processor's rounding turns near ties over, a forger's text is another model's. Other kinds of model store
no answers, and their sets are scored again as a whole. Sets of files are read where they were.
"""

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from dragoman.model.bundles.directory import bundle_kind, read_facts
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.inference.translator import open_translator
from dragoman.model.languages import is_rewriting, languages_of
from dragoman.model.runs import journal, paths
from dragoman.model.runs.bundles import is_released
from dragoman.model.runs.record import read_release
from dragoman.model.schema import build
from dragoman.model.settings import DecodeConfig, EngineName
from dragoman.model.untrusted import read_json
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.checks import checks_record, run_checks
from dragoman.pipelines.evaluation.held_out import held_out_lines
from dragoman.pipelines.evaluation.metrics import score
from dragoman.pipelines.evaluation.sets.read import read_sets
from dragoman.pipelines.evaluation.sets.scores import score_set
from dragoman.pipelines.evaluation.sets.stored import translate_once
from dragoman.pipelines.settings import MetricName
from dragoman.pipelines.tasks.base import task_of
from dragoman.pipelines.tasks.openings import CHOSEN_ON, set_digest
from dragoman.pipelines.tasks.translation_release import stored_translations
from dragoman.pipelines.training.verification import DifferenceError, NotRecordedError, check, read_lines
from dragoman.pipelines.word_vectors.settings import EvaluateVectors

MINUTE = 60.0  # seconds that translating a set took, up to which all of it is translated again
FORGED = 0.05  # share of a set whose discovery a message states
EXPORTS: dict[EngineName, Literal["float32", "int8"]] = {"ctranslate2": "float32", "ctranslate2-int8": "int8"}
NEAR = 0.25  # nats a token between a stored translation and the one made again
ROUNDED = 1e-6  # of a score from stored texts
RECOMPUTED: tuple[MetricName, ...] = ("bleu", "chrf", "ter")  # the others are models
TIMED = ("seconds",)  # of an evaluation
AGAIN = 1e-3  # of a score from answers that another processor rounds otherwise
EXPORTED = 16  # translations by PyTorch too, to compare the export's network
ENGINES: dict[str, EngineName] = {
    "torch": "torch",
    "ctranslate2 (ct2)": "ctranslate2",
    "ctranslate2 (ct2-int8)": "ctranslate2-int8",
}


@check("scores")
def check_scores(settings: Config, find: Callable[[str], Path], sample: int) -> str:
    """Computes the scores of every evaluation again, and compares those of bundle and release with the evaluations.

    `find` returns the shards of a manifest's hash; `sample`: the translations that are made again where all would take
    over a minute; 0: all.
    """
    run = settings.run_dir
    check_released_scores(run)
    lines, compared = [], 0
    for path in paths.evaluations(run):
        record = read_json(path) or {}
        compared += 1
        if "manifest_hash" in record:
            lines.append(f"{path.name}: {_check_evaluation(settings, path, record, find, sample)}")
        elif is_released(run) and "settings" in record:
            lines.append(f"{path.name}: {_check_vectors(settings, path, record)}")
        elif is_released(run) and all("places" in set_record for set_record in record.get("sets", [{}])):
            lines.append(f"{path.name}: {_check_sets(settings, path, record, sample)}")
        else:
            lines.append(f"{path.name}: names no files or has no bundle, not computed again")
            compared -= 1
    if not compared:
        raise NotRecordedError("; ".join(lines) or "no evaluation of these shards' texts")
    return "; ".join(lines)


def _check_evaluation(
    settings: Config, path: Path, record: Mapping[str, Any], find: Callable[[str], Path], sample: int
) -> str:
    """Returns what was computed again."""
    run, shards, split = settings.run_dir, find(str(record["manifest_hash"])), str(record["split"])
    check_opened(run, path, split, shards)
    if "bleu" in record["scores"]:
        return _check_translations(run, path, record, shards, sample)
    if not is_released(run):
        return "no bundle to score it again by"
    bundle, size = open_bundle(run / paths.BUNDLE), int(record.get("texts", record.get("records", 0)))
    evaluate = replace(settings.evaluate, split=split, sentences=size, samples=0, stride=int(record.get("stride", 0)))
    config = replace(settings, evaluate=evaluate, paths=replace(settings.paths, shards=str(shards)))
    again = task_of(bundle_kind(bundle.directory)).evaluate(config, bundle).facts()
    compare_numbers(path, record["scores"], again[split], AGAIN)
    return "scored again by the bundle"


def _check_translations(run: Path, path: Path, record: Mapping[str, Any], shards: Path, sample: int) -> str:
    scores, split = record["scores"], record["split"]
    languages = languages_of(str(record["pair"]))
    texts = paths.hypotheses(run, split, languages[-1])
    if not texts.is_file():
        raise DifferenceError(f"{path}: its translations, {texts.name}, are missing")
    ours = texts.read_text(encoding="utf-8").split("\n")[:-1]
    references = held_out_lines(shards, split, languages[-1], len(ours))
    named = _tokenize(scores["signatures"])
    again = score(ours, references, languages[-1], named, with_rouge=is_rewriting(languages))
    compare_numbers(path, scores, asdict(again), ROUNDED)
    if not is_released(run):
        return "scores as computed again, no bundle to translate again by"
    bundle = load_bundle(run / paths.BUNDLE)
    sources = held_out_lines(shards, split, bundle.languages[0], len(ours))
    return f"scores as computed again, {check_translations(path, record, bundle, sources, ours, sample)}"


def _check_vectors(settings: Config, path: Path, record: Mapping[str, Any]) -> str:
    """Scores word vectors again on the files that the evaluation names, and on texts of the shards."""
    evaluate = build(EvaluateVectors, record["settings"], "settings")
    vectors = replace(settings.vectors, evaluate=replace(evaluate, pictures=False))
    bundle = open_bundle(settings.run_dir / paths.BUNDLE)
    again = task_of(bundle_kind(bundle.directory)).evaluate(replace(settings, vectors=vectors), bundle)
    compare_numbers(path, record, {**again.record(), "settings": record["settings"]}, AGAIN, TIMED)
    if gone := record["scores"].keys() - again.metrics().keys():
        raise DifferenceError(f"{path}: {min(gone)} is no score of its files")
    return "scored again by the bundle"


def _check_sets(settings: Config, path: Path, record: Mapping[str, Any], sample: int) -> str:
    """Scores the translations of test sets again; those that are stored are sampled, others made."""
    bundle, lines = load_bundle(settings.run_dir / paths.BUNDLE), []
    if record["bundle"] != bundle.digest:
        raise DifferenceError(
            f"{path}: is of another bundle, {str(record['bundle'])[:12]}; `dragoman evaluate` it again"
        )
    decode, name = DecodeConfig(**record["decode"]), ENGINES[record["engine"]]
    for stored in record["sets"]:
        label, places = stored["name"], stored["places"]
        value = settings.evaluate.sets.get(label, places)
        (held_out,) = read_sets({label: value}, bundle.languages, stored["split"], int(stored["sentences"]))
        if held_out.digest != stored["digest"]:
            raise DifferenceError(f"{path}: {', '.join(held_out.places)}: not the set {label} that was scored")
        translator = open_translator(bundle, name)
        kept = translate_once(translator, held_out.sources, decode, bundle.digest, stored_translations(settings)).texts
        metrics = [metric for metric in RECOMPUTED if metric in stored["scores"]]
        again = score_set(held_out, kept, metrics, bundle.languages[1], _tokenize(stored["signatures"]))
        checks = run_checks(held_out.sources, held_out.references, kept, bundle.languages)
        record_again = {**again.record(), "checks": checks_record(checks, held_out.sources, held_out.references, kept)}
        compare_numbers(path, stored, record_again, AGAIN)
        lines.append(f"{label}: {check_translations(path, record, bundle, held_out.sources, kept, sample)}")
    return "; ".join(lines)


def _tokenize(signatures: Mapping[str, str]) -> str:
    """Returns the tokenizer that a signature of BLEU names."""
    match = re.search(r"\|tok:([^|]+)", signatures.get("bleu", ""))
    return match.group(1) if match else "auto"


def compare_numbers(
    path: Path, stored: Mapping[str, Any], again: Mapping[str, Any], tolerance: float, but: Sequence[str] = ()
) -> None:
    """Raises DifferenceError for the first number that differs; a newer score that was not stored is none."""
    new = dict(_numbers(again))
    for name, value in _numbers(stored):
        if name in new and name not in but and not math.isclose(value, new[name], rel_tol=tolerance, abs_tol=tolerance):
            raise DifferenceError(f"{path}: {name} {value:g}, computed again {new[name]:g}")


def _numbers(values: object, name: str = "") -> Iterator[tuple[str, float]]:
    """Yields (dotted name, number) of nested values."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from _numbers(value, f"{name}.{key}".lstrip("."))
    elif isinstance(values, Sequence) and not isinstance(values, str):
        for place, value in enumerate(values):
            yield from _numbers(value, f"{name}.{place}")
    elif isinstance(values, int | float):
        yield name, float(values)


def check_released_scores(run: Path) -> None:
    """Raises DifferenceError if the bundle or RUN/release.json has scores that no evaluation had."""
    lines = [line for _, line in read_lines(run / paths.EVALUATIONS) if "scores" in line]
    if not lines or not is_released(run):
        return
    scores = read_facts(run / paths.BUNDLE).get("scores") or {}
    vectors = [line["scores"] for line in lines if line["file"] == paths.evaluation(run, "vectors").name]
    if vectors and journal.scores_digest(scores) not in vectors:
        raise DifferenceError(f"{run / paths.BUNDLE}: its scores are those of no evaluation of the run")
    for split, split_scores in scores.items() if not vectors else ():
        of_split = [line["scores"] for line in lines if line["file"] == paths.evaluation(run, split).name]
        if of_split and journal.scores_digest(split_scores) not in of_split:
            raise DifferenceError(f"{run / paths.BUNDLE}: its scores on {split} are those of no evaluation of the run")
    released = read_release(run).get("bleu")
    if released and released not in [
        split_scores["lines"]["bleu"] for split_scores in scores.values() if "lines" in split_scores
    ]:
        raise DifferenceError(f"{run / paths.RELEASE}: {released!r} is not the bundle's score")


def check_opened(run: Path, path: Path, split: str, shards: Path) -> None:
    """Raises DifferenceError if a test set was scored more often than the run's recorded openings."""
    if split in CHOSEN_ON:
        return
    digest = set_digest(shards, split)
    scored = sum(line["file"] == path.name for _, line in read_lines(run / paths.EVALUATIONS))
    opened = sum(line["split"] == split for _, line in read_lines(run / paths.OPENINGS))
    of_set = any(line["set"] == digest for _, line in read_lines(run / paths.OPENINGS))
    if opened < scored or (scored and not of_set):
        raise DifferenceError(
            f"{path}: {split} was scored {scored:,} times, and {paths.OPENINGS} knows of {opened:,} openings of it"
        )


def check_translations(
    path: Path,
    record: Mapping[str, Any],
    bundle: TranslationBundle,
    sources: Sequence[str],
    kept: Sequence[str],
    sample: int,
) -> str:
    """Translates an evaluation again, all of it or a sample; returns how much.

    Raises DifferenceError: a stored text is not the bundle's, or its export has another network than its weights.
    """
    whole = not sample or sample >= len(kept) or float(record.get("seconds", math.inf)) <= MINUTE
    rows = range(len(kept)) if whole else sorted(random.SystemRandom().sample(range(len(kept)), sample))
    lines, decode, name = [sources[row] for row in rows], DecodeConfig(**record["decode"]), ENGINES[record["engine"]]
    try:
        again = _translate(bundle, name, lines, decode)
    except UserError:  # no int8 on this machine
        again = _translate(bundle, "torch", lines, decode)
    _check_likely(path, bundle, lines, [(row, kept[row]) for row in rows], again)
    _check_exports(bundle, lines[:EXPORTED], decode)
    if whole:
        return f"all {len(kept):,} translations as made again"
    missed = math.comb(len(kept) - math.ceil(FORGED * len(kept)), sample) / math.comb(len(kept), sample)
    return (
        f"{sample:,} of {len(kept):,} translations as made again: a forger of {FORGED:.0%} would have been found with "
        f"{1 - missed:.0%}"
    )


def _check_likely(
    path: Path, bundle: TranslationBundle, lines: Sequence[str], kept: Sequence[tuple[int, str]], again: Sequence[str]
) -> None:
    """Raises DifferenceError for the first stored text that differs and is clearly less likely than the one made again:
    it is not the network's; or clearly more likely: what made it serves no longer."""
    other = [place for place, (_, text) in enumerate(kept) if text != " ".join(again[place].split("\n"))]
    stored, made = _likely(
        bundle, *([of[place] for place in other] for of in (lines, [text for _, text in kept], again))
    )
    for place, old, new in zip(other, stored, made, strict=True):
        if abs(old - new) > NEAR:
            raise DifferenceError(
                f"{path}: the translation of line {kept[place][0] + 1:,} is not the bundle's: {old:.2f} nats a token, "
                f"made again {new:.2f} ({len(other):,} of {len(kept):,} come out otherwise)"
            )


def _check_exports(bundle: TranslationBundle, lines: Sequence[str], decode: DecodeConfig) -> None:
    """Raises DifferenceError for an export whose translations are clearly less likely to the network than its own."""
    by_torch = _translate(bundle, "torch", lines, decode)
    for engine, form in EXPORTS.items():
        if bundle.export_folder(form) is None:
            continue
        try:
            exported = _translate(bundle, engine, lines, decode)
        except UserError:  # no int8 on this machine
            continue
        served, own = _likely(bundle, lines, exported, by_torch)
        if sum(own) - sum(served) > NEAR * len(lines):
            raise DifferenceError(f"{bundle.directory}: its export for {engine} translates otherwise than its weights")


def _likely(
    bundle: TranslationBundle, sources: Sequence[str], some: Sequence[str], others: Sequence[str]
) -> tuple[list[float], list[float]]:
    """Returns the log-probability a token of two translations of each source."""
    scorer = open_scorer(bundle)
    first, second = (scorer.score(sources, texts, too_long="truncate") for texts in (some, others))
    return [score.mean for score in first], [score.mean for score in second]


def _translate(bundle: TranslationBundle, name: EngineName, lines: Sequence[str], decode: DecodeConfig) -> list[str]:
    return [answer.text for answer in open_translator(bundle, name).translate(lines, decode)]
