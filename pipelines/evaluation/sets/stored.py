"""Translations saved once, under what they depend on: bundle, decoding settings, engine and sources."""

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_directory
from dragoman.model.inference.losses import Losses
from dragoman.model.inference.translator import Translator
from dragoman.model.schema import build
from dragoman.model.settings import DecodeConfig

logger = logging.getLogger(__name__)
RECORD, TEXTS = "record.json", "translations.txt"


@dataclass(frozen=True)
class Translated:
    """The translations of some lines, in their order."""

    texts: list[str]
    engine: str
    seconds: float  # of translating, without loading
    warnings: list[str] = field(default_factory=list)  # of lines that were not translated completely


@dataclass(frozen=True)
class Record:
    """The file beside the texts."""

    key: dict[str, Any]
    texts_sha256: str
    seconds: float
    warnings: list[str]


def translate_once(
    translator: Translator, sources: Sequence[str], decode: DecodeConfig, bundle: str, folder: Path | None
) -> Translated:
    """Returns the translations that `folder` has, else makes them and saves them there (None: saves none).

    `bundle` is the digest of the translator's bundle.
    """
    key = {"bundle": bundle, "engine": translator.engine.name, "decode": asdict(decode), "sources": _digest(sources)}
    place = None if folder is None else folder / bundle[:12] / _digest([json.dumps(key, sort_keys=True)])[:32]
    if place is not None and (stored := _read(place, key, len(sources))) is not None:
        logger.info(f"the translations of {len(sources):,} sentences are in {place}; nothing is translated")
        return stored
    translator.translate(sources[:1], decode)  # warm up: first-call costs are not speed
    begin = time.perf_counter()
    answers = translator.translate(sources, decode)
    seconds, losses = time.perf_counter() - begin, Losses()
    for source, answer in zip(sources, answers, strict=True):
        losses.add(source, answer)
    texts = [" ".join(answer.text.split("\n")) for answer in answers]
    made = Translated(texts, translator.engine.name, seconds, list(losses.messages()))
    if place is not None:
        _write(place, key, made)
    return made


def _read(place: Path, key: dict[str, Any], count: int) -> Translated | None:
    """Returns the translations in a folder; None if they are missing or were changed."""
    try:
        record = build(Record, json.loads((place / RECORD).read_bytes()), str(place / RECORD))
        content = (place / TEXTS).read_text(encoding="utf-8")
    except (OSError, ValueError, UserError):
        return None
    texts = content.split("\n")[:-1]
    if record.key != key or len(texts) != count or _digest(texts) != record.texts_sha256:
        return None
    return Translated(texts, str(key["engine"]), record.seconds, record.warnings)


def _write(place: Path, key: dict[str, Any], made: Translated) -> None:
    """Saves the translations; a place that cannot be written only makes the next evaluation slower."""
    record = Record(key, _digest(made.texts), made.seconds, made.warnings)
    try:
        with atomic_directory(place) as work:
            (work / TEXTS).write_text("".join(f"{text}\n" for text in made.texts), encoding="utf-8", newline="\n")
            (work / RECORD).write_text(
                json.dumps(asdict(record), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
            )
    except OSError as problem:
        logger.info(f"the translations are not kept: {place}: {problem.strerror or problem}")


def _digest(lines: Sequence[str]) -> str:
    hasher = hashlib.sha256()
    for line in lines:
        hasher.update(line.encode() + b"\n")
    return hasher.hexdigest()
