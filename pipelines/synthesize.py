"""`dragoman synthesize`: a model translates the texts of shards; the pairs become a corpus for another model.

dragoman synthesize bundle=TEACHER output=FOLDER   sequence-level distillation (Kim, Rush 2016)
dragoman synthesize bundle=BACKWARD output=FOLDER  back-translation (Sennrich et al. 2016)
dragoman shard corpus=jsonl corpus.train.file=FOLDER/pairs.jsonl

The bundle's languages say which side of the shards it reads. `pairs.jsonl` has the pairs that are kept, in the shards'
order, an object a line with a text for each language: no text can move against its translation. `dropped.jsonl` has the
others with the reason, `train.jsonl`, `valid.jsonl` and `test.jsonl` the shards' own pairs, `record.json` the counts,
the models and the sha256 of the pairs.
"""

import heapq
import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict

from dragoman.conf import compose
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_text, atomic_write, exclusive, file_sha256
from dragoman.model.inference.kinds import check_translates
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.inference.translator import Translation, open_translator
from dragoman.model.runs.paths import TRAINING
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.text.hashed_texts import read_hashes, write_hashes
from dragoman.model.untrusted import read_object
from dragoman.pipelines.config import SynthesizeRoot
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.loaders.texts import unpack_split

PAIRS, DROPPED, RECORD, PARTS, LOCK = "pairs.jsonl", "dropped.jsonl", "record.json", "parts", ".lock"
TRAIN = "train"  # held-out texts are no training corpus
OPENED = "begun.json"  # what the parts are made of
SAID_EVERY = 10.0  # seconds between two lines of progress
logger = logging.getLogger(__name__)


class Row(TypedDict):
    """A record and its translation, as the parts hold them."""

    id: int  # global, in the shards
    source: str  # what was translated
    target: str
    score: float  # log-probability a token
    reason: str  # why it is dropped; empty if it is not


def task(config: SynthesizeRoot) -> int:
    """Translates, scores, keeps the best and writes them; goes on where a stopped command was."""
    settings = config.synthesize
    if config.bundle is None:
        raise UserError("bundle=RUN is needed: the model that translates")
    if config.output is None:
        raise UserError("output=FOLDER is needed: a new folder")
    bundle = _open(config, config.bundle, "bundle")
    scorer = _open(config, settings.scorer, "synthesize.scorer") if settings.scorer is not None else None
    side = _side(config.shard_dir, bundle)
    if scorer is not None and set(scorer.languages) != set(bundle.languages):
        pairs = f"{scorer.pair}, bundle {bundle.pair}"
        raise UserError(f"synthesize.scorer={settings.scorer} translates {pairs}; it scores the same two languages")
    folder = Path(config.output).expanduser()
    facts = {
        "pair": bundle.pair,
        "bundle": bundle.digest,
        "scorer": scorer.digest if scorer else None,
        "shards": manifest_hash(config.shard_dir),
        "part": settings.part,
        "engine": config.engine,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / LOCK) as alone:
        if not alone:
            raise UserError(f"output={folder}: another command writes there")
        if _is_done(folder, facts, settings.keep):
            print(f"{folder}: is there already")
            return compose.OK
        texts = (record[side] for record in unpack_split(config.shard_dir, TRAIN))
        total = read_manifest(config.shard_dir).splits[TRAIN].records
        answer = _translate_and_score(bundle, scorer, config.engine)
        _write_parts(folder / PARTS, texts, total, settings.part, answer)
        counts = _write_kept(folder, bundle, settings.keep)
        held = _write_own(folder, config.shard_dir, bundle)
        models = [bundle.directory for bundle in (bundle, scorer) if bundle is not None]
        learned = [model / TRAINING for model in models if (model / TRAINING).is_file()]
        write_hashes(folder / TRAINING, map(read_hashes, learned))  # who trains on the pairs learns from these models
        record = {**facts, **counts, "held_out": held, "keep": settings.keep, "sha256": file_sha256(folder / PAIRS)}
        atomic_write(folder / RECORD, json.dumps(record, indent=2) + "\n")
        shutil.rmtree(folder / PARTS)
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in counts["dropped"].items()) or "none"
    print(f"{folder / PAIRS}: {counts['kept']:,} of {counts['records']:,} pairs; dropped: {dropped}")
    return compose.OK


def _open(config: SynthesizeRoot, reference: str, key: str) -> TranslationBundle:
    directory = config.bundle_dir(reference, key)
    check_translates(directory, reference)
    return load_bundle(directory)


def _side(shards: Path, bundle: TranslationBundle) -> int:
    """Returns the number of the shards' side that the bundle translates."""
    sides = read_manifest(shards).sides
    if bundle.languages[0] not in sides:
        raise UserError(
            f"bundle: translates {bundle.pair}, the shards in {shards} hold {' and '.join(sides)}; "
            f"name a model that reads one of them"
        )
    return sides.index(bundle.languages[0])


def _is_done(folder: Path, facts: dict[str, Any], keep: float) -> bool:
    """Returns True if the folder holds all of this; readies it for the rest if it holds a part of this or nothing."""
    done = read_object(folder / RECORD)
    if done:
        same, pairs = {**done, **facts, "keep": keep} == done, folder / PAIRS
        if same and pairs.is_file() and file_sha256(pairs) == done["sha256"]:
            shutil.rmtree(folder / PARTS, ignore_errors=True)  # of a command that was killed right at its end
            return True
        changed = "its pairs were changed" if same else "holds other pairs"
        raise UserError(f"output={folder}: {changed}; name another folder, or delete this one")
    if read_object(folder / PARTS / OPENED) != facts:
        others = [path.name for path in folder.iterdir() if path.name != LOCK]
        if others:
            held = "an unfinished corpus of other settings" if PARTS in others else others[0]
            raise UserError(f"output={folder}: holds {held}; name a new folder, or delete this one")
        (folder / PARTS).mkdir()
        atomic_write(folder / PARTS / OPENED, json.dumps(facts))
    return False


Answer = Callable[[Sequence[str]], tuple[list[Translation], list[float]]]


def _translate_and_score(bundle: TranslationBundle, scorer: TranslationBundle | None, engine: Any) -> Answer:
    """Returns the function from texts to their translations and the log-probabilities a token of the pairs."""
    translator = open_translator(bundle, engine)
    scoring = open_scorer(scorer) if scorer is not None else None
    backwards = scorer is not None and scorer.languages != bundle.languages

    def answer(texts: Sequence[str]) -> tuple[list[Translation], list[float]]:
        translations = translator.translate(texts, on_error="keep")
        if scoring is None:
            best = [translation.nbest[:1] for translation in translations]
            return translations, [
                sum(hypothesis.log_probability / max(1, len(hypothesis.ids)) for hypothesis in each) for each in best
            ]
        targets = [translation.text for translation in translations]
        sides = (targets, texts) if backwards else (texts, targets)
        return translations, [score.mean for score in scoring.score(*sides, too_long="truncate")]

    return answer


def _write_parts(folder: Path, texts: Iterator[str], total: int, size: int, answer: Answer) -> None:
    """Writes the parts that are missing. A part's records are the same whenever it is written, and so its bytes are."""
    done, said, began, fresh = 0, time.monotonic(), time.monotonic(), 0
    for number, part in enumerate(iter(lambda: list(islice(texts, size)), [])):
        path = folder / f"{number:06d}.jsonl"
        if not path.is_file():
            translations, scores = answer(part)
            with atomic_text(path) as file:
                for row, (text, translation, score) in enumerate(zip(part, translations, scores, strict=True), done):
                    row_written = Row(
                        id=row,
                        source=text,
                        target=translation.text,
                        score=round(score, 6),
                        reason=_reason(text, translation),
                    )
                    file.write(json.dumps(row_written, ensure_ascii=False) + "\n")
            fresh += len(part)
        done += len(part)
        if fresh and (time.monotonic() - said > SAID_EVERY or done == total):
            said = time.monotonic()
            logger.info("%s of %s records, %.0f/s", f"{done:,}", f"{total:,}", fresh / max(said - began, 1e-9))


def _reason(text: str, answer: Translation) -> str:
    """Returns why a pair is of no use to another model; empty if it is."""
    if answer.error:
        return "failed"
    if not text.strip() or not answer.text.strip():
        return "empty"
    if answer.truncated:
        return "longer than the model reads"
    return "a loop" if answer.loops or answer.loop_broken else ""


def _rows(parts: Path) -> Iterator[Row]:
    """Yields the rows of all parts in order. They are read twice, for they may not fit into memory."""
    for path in sorted(parts.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def _write_kept(folder: Path, bundle: TranslationBundle, keep: float) -> dict[str, Any]:
    """Writes the kept and the dropped pairs; returns the counts and the least score that is kept."""
    ranked = [(row["score"], -row["id"]) for row in _rows(folder / PARTS) if not row["reason"]]
    worst = heapq.nsmallest(len(ranked) - round(keep * len(ranked)), ranked)  # of equal scores the later goes first
    bound = worst[-1] if worst else (float("-inf"), 0)
    source, target = bundle.languages
    counts: Counter[str] = Counter()
    with atomic_text(folder / PAIRS) as kept, atomic_text(folder / DROPPED) as dropped:
        for row in _rows(folder / PARTS):
            reason = row["reason"] or ("of low score" if (row["score"], -row["id"]) <= bound else "")
            counts[reason] += 1
            pair = {source: row["source"], target: row["target"]}
            written = {**pair, "score": row["score"], "reason": reason} if reason else pair
            (dropped if reason else kept).write(json.dumps(written, ensure_ascii=False) + "\n")
    kept_pairs = counts.pop("", 0)
    if not kept_pairs:
        raise UserError(f"no pair is left of {sum(counts.values()):,}: {dict(counts)}")
    return {"records": kept_pairs + counts.total(), "kept": kept_pairs, "dropped": dict(counts.most_common())}


def _write_own(folder: Path, shards: Path, bundle: TranslationBundle) -> list[str]:
    """Writes the pairs of parallel shards beside the new ones; returns the names of the held-out splits."""
    manifest, languages = read_manifest(shards), bundle.languages
    splits = [split for split, texts in manifest.texts.items() if set(languages) <= set(texts)]
    for split in splits:
        _write_pairs(folder / f"{split}.jsonl", languages, zip(*held_out(shards, split, languages), strict=True))
    if set(languages) <= set(manifest.sides):
        _write_pairs(folder / f"{TRAIN}.jsonl", manifest.sides, unpack_split(shards, TRAIN))
    return splits


def _write_pairs(path: Path, languages: Sequence[str], pairs: Iterable[Sequence[str]]) -> None:
    with atomic_text(path) as file:
        for pair in pairs:
            file.write(json.dumps(dict(zip(languages, pair, strict=True)), ensure_ascii=False) + "\n")
