"""A document of `dragoman translate`: read by its ending, translated, written with its layout."""

import dataclasses
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.inference.losses import Losses
from dragoman.services.commands.output import file_errors
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.settings import TranslateConfig
from dragoman.services.texts.documents.document import Document, DocumentError
from dragoman.services.texts.documents.kinds import PACKED, ending_of, read_document
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import Prepared, prepare
from dragoman.services.texts.translating import translate_all

logger = logging.getLogger(__name__)


def document_of(config: TranslateConfig, text: str | None) -> tuple[str, Document] | None:
    """Returns name and content of the document that the settings name; None if they name none.

    Raises UserError: it cannot be read, or is given with what belongs to lines.
    """
    packed = config.input is not None and Path(config.input).suffix.lower() in PACKED
    key = "translate.document" if config.document is not None else "translate.input"
    name = config.document if config.document is not None else config.input if packed else None
    if name is None:
        return None
    if config.document is not None and (config.input is not None or text is not None):
        raise UserError(f"{key}={name}: give a document or lines, not both")
    if config.output is None:
        raise UserError(f"{key}={name}: translate.output must name the translated document")
    if config.format != "text" or config.nbest > 1 or config.attention or not config.protect:
        raise UserError(
            f"{key}={name}: a document has its own format and one translation: leave translate.format, nbest, "
            "attention and protect as they are"
        )
    try:
        if ending_of(config.output) != ending_of(name):
            raise DocumentError(f"translate.output={config.output} must end in {ending_of(name)}: formats stay")
        with file_errors(key, name, "read"):
            return name, read_document(name, Path(name).read_bytes())
    except DocumentError as problem:
        raise UserError(f"{key}={name}: {problem}") from None


def translate_passages(
    served: LoadedModel,
    name: str,
    document: Document,
    config: TranslateConfig,
    options: TextOptions,
    certify: Callable[[int, Mapping[str, Any]], None],
    warn: Callable[[Sequence[Mapping[str, Any]]], None],
) -> Losses:
    """Translates and writes a document; returns the losses, of sentences. Certificates count its passages.

    Raises UserError: a sentence cannot be translated, or the output cannot be written.
    """
    assert config.output is not None, "checked before"
    losses, texts, reports = Losses("sentence"), [], []
    for note in document.notes:
        logger.warning("%s: %s", name, note)
    for number, prepared in enumerate(_prepared(served, name, document, config, options)):
        for line, translation in prepared.translations():
            if translation.error and config.on_error == "raise":
                raise UserError(f"{name}: {translation.error}. translate.on_error=skip leaves such sentences empty")
            losses.add(line, translation)
        rebuilt = prepared.rebuild()
        texts.append(rebuilt.text)
        reports.append(rebuilt.report)
        certify(number, rebuilt.report)
    warn(reports)
    try:
        with file_errors("translate.output", config.output):
            atomic_write(Path(config.output), document.write(texts, served.target))
    except DocumentError as problem:
        raise UserError(f"{name}: {problem}") from None
    return losses


def _prepared(
    served: LoadedModel, name: str, document: Document, config: TranslateConfig, options: TextOptions
) -> Iterator[Prepared]:
    """Yields the passages translated, some at a time; shows the progress to a user."""
    started, is_terminal = time.monotonic(), sys.stderr.isatty()
    every = document.passages
    for start in range(0, len(every), config.lines):
        try:
            texts = [
                prepare(
                    passage.text,
                    dataclasses.replace(passage.options, glossary=options.glossary, known=options.known),
                    served.source,
                    config.longest,
                    served.target,
                    served.marks_capitals,
                )
                for passage in every[start : start + config.lines]
            ]
        except UserError as problem:
            raise UserError(f"{name}: {problem}") from None
        translate_all(texts, served)
        yield from texts
        if is_terminal:
            done = min(start + config.lines, len(every))
            rate = done / (time.monotonic() - started)
            print(f"\r{done:,} of {len(every):,} passages, {rate:,.0f}/s ", end="", file=sys.stderr, flush=True)
    if is_terminal:
        print(file=sys.stderr)
