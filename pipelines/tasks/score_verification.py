"""Checks the scores of a run: computes them again from the stored texts, and makes a sample of the texts again.

Scores are computed from the stored texts, so replaced texts would replace the scores. A sample, translated again by the
engine that made it and by PyTorch, shows that the texts are the bundle's, and that its export for serving has the same
network as its weights.
"""

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.model.bundles.directory import read_facts
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import open_translator
from dragoman.model.languages import languages_of
from dragoman.model.runs import journal, paths
from dragoman.model.runs.bundles import is_released
from dragoman.model.runs.record import read_release
from dragoman.model.settings import DecodeConfig, EngineName
from dragoman.model.untrusted import read_json
from dragoman.pipelines.evaluation.metrics import quick_bleu, quick_chrf
from dragoman.pipelines.evaluation.translation import held_out_lines
from dragoman.pipelines.tasks.openings import CHOSEN_ON, set_digest
from dragoman.pipelines.training.verification import Check, DifferenceError, read_lines

SAMPLE = 16  # sentences
ALIKE = 0.5  # of a sample: another processor's rounding changes a few sentences, another model nearly all
TRAINED = 30.0  # chrF above which int8's rounding leaves most sentences unchanged
ENGINES: dict[str, EngineName] = {
    "torch": "torch",
    "ctranslate2 (ct2)": "ctranslate2",
    "ctranslate2 (ct2-int8)": "ctranslate2-int8",
}


def check_scores(run: Path, find: Callable[[str], Path]) -> Check:
    """Checks BLEU and chrF of every evaluation against the stored texts, a sample of the texts against the bundle, and
    the scores of bundle and release against the evaluations.

    `find` returns the shards of a manifest's hash.
    """
    counted = 0
    try:
        check_released_scores(run)
        for path in paths.evaluations(run):
            record = read_json(path) or {}
            scores = record.get("scores", {})
            if "bleu" not in scores:
                continue
            language = languages_of(str(record["pair"]))[-1]
            texts = paths.hypotheses(run, record["split"], language)
            if not texts.is_file():
                raise DifferenceError(f"{path}: its translations, {texts.name}, are missing")
            ours = texts.read_text(encoding="utf-8").split("\n")[:-1]
            shards = find(str(record.get("manifest_hash")))
            check_opened(run, path, str(record["split"]), shards)
            references = held_out_lines(shards, record["split"], language, len(ours))
            tokenize = re.search(r"\|tok:([^|]+)", scores["signatures"]["bleu"])
            again = quick_bleu(ours, references, language, tokenize.group(1) if tokenize else "auto")
            for name, value in (("bleu", again), ("chrf", quick_chrf(ours, references))):
                if not math.isclose(value, scores[name], abs_tol=1e-6):
                    raise DifferenceError(f"{path}: {name} {scores[name]:g}, its translations have {value:g}")
            if is_released(run):
                bundle = load_bundle(run / paths.BUNDLE)
                sources = held_out_lines(shards, record["split"], bundle.languages[0], len(ours))
                check_translations(path, record, bundle, sources, ours)
            counted += 1
    except (DifferenceError, UserError) as problem:
        return Check("scores", "differs", str(problem))
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        return Check("scores", "differs", f"an evaluation is damaged ({problem!r})")
    if not counted:
        return Check("scores", "not recorded", "no evaluation of these shards' texts")
    return Check(
        "scores", "same", f"{counted} evaluations, BLEU and chrF as computed again, a sample as translated again"
    )


def check_released_scores(run: Path) -> None:
    """Raises DifferenceError if the bundle or RUN/release.json has scores that no evaluation had."""
    lines = [line for _, line in read_lines(run / paths.EVALUATIONS) if "scores" in line]
    if not lines or not is_released(run):
        return
    scores = read_facts(run / paths.BUNDLE).get("scores") or {}
    for split, found in scores.items():
        of_split = [line["scores"] for line in lines if line["file"] == paths.evaluation(run, split).name]
        if of_split and journal.scores_digest(found) not in of_split:
            raise DifferenceError(f"{run / paths.BUNDLE}: its scores on {split} are those of no evaluation of the run")
    told = read_release(run).get("bleu")
    if told and told not in [found["lines"]["bleu"] for found in scores.values() if "lines" in found]:
        raise DifferenceError(f"{run / paths.RELEASE}: {told!r} is not the bundle's score")


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
    path: Path, record: Mapping[str, Any], bundle: TranslationBundle, sources: Sequence[str], kept: Sequence[str]
) -> None:
    """Translates a sample of an evaluation again.

    Raises:
        DifferenceError: the stored texts are not the bundle's, or its export has another network than its weights.
    """
    rows = sorted(random.SystemRandom().sample(range(len(kept)), min(SAMPLE, len(kept))))
    lines, decode = [sources[row] for row in rows], DecodeConfig(**record["decode"])
    name = ENGINES[record["engine"]]
    by_torch = _translate(bundle, "torch", lines, decode)
    rounds = name == "ctranslate2-int8" and record["scores"]["chrf"] < TRAINED
    try:
        again = _translate(bundle, name, lines, decode)
    except UserError:  # no int8 on this machine
        if rounds:
            return
        again = by_torch
    if _alike([kept[row] for row in rows], again) < ALIKE:
        raise DifferenceError(f"{path}: its translations are not the bundle's: most of {len(rows)} come out otherwise")
    if _alike(again, by_torch) < ALIKE and not rounds:
        raise DifferenceError(f"{bundle.directory}: its export for {name} translates otherwise than its weights")


def _translate(bundle: TranslationBundle, name: EngineName, lines: Sequence[str], decode: DecodeConfig) -> list[str]:
    return [answer.text for answer in open_translator(bundle, name).translate(lines, decode)]


def _alike(some: Sequence[str], others: Sequence[str]) -> float:
    """Returns the share of equal texts."""
    return sum(one == other for one, other in zip(some, others, strict=True)) / max(1, len(some))
