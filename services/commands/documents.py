"""Reads and writes what `dragoman translate` takes beside lines: documents, certificates and attention.

`translate.attention` is a picture of the first sentences' maps, whose rows are the words of the translation, or JSON:
an object for each line with its number, source and text, and for each sentence the tokens of both sides, the alignment
as pairs of token positions, and the weights.
"""

import contextlib
import dataclasses
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_path
from dragoman.model.inference.losses import Losses
from dragoman.model.inference.translator import Translation
from dragoman.services.commands.lines import file_errors, open_output
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.settings import TranslateConfig
from dragoman.services.texts.documents.document import Document, DocumentError, Passage
from dragoman.services.texts.documents.kinds import PACKED, ending_of, read_document
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import Prepared, prepare
from dragoman.services.texts.translating import translate_all

Certify = Callable[[int, Mapping[str, Any]], None]  # a line's number and its certificate
MOST_SHOWN = 5  # lost things in a message
SUFFIXES = (".png", ".svg", ".pdf", ".json")
KEY = "translate.attention"
MOST_MAPS = 12  # in a picture
LONGEST_TITLE = 70  # characters
Show = Callable[[int, str | None, Translation], None]  # a line's number, the line (None: not UTF-8), its translation
logger = logging.getLogger(__name__)


@contextlib.contextmanager
def open_document(path: str | None) -> Iterator[tuple[BinaryIO, str]]:
    """Opens a file or standard input as it is, with its name for messages."""
    if path is None:
        if sys.stdin is None:
            raise UserError("input: standard input is closed; name a file")
        yield sys.stdin.buffer, "standard input"
        return
    with contextlib.ExitStack() as stack:
        with file_errors("input", path, "read"):
            file = stack.enter_context(Path(path).open("rb"))
        yield file, path


@contextlib.contextmanager
def report_file(path: str | None) -> Iterator[Certify]:
    """Yields a function that takes the certificates of lines in order, and writes them to a file if there is one."""
    if path is None:
        yield lambda _number, _report: None
        return
    with open_output(path, "translate.report") as out:
        yield lambda number, report: print(json.dumps({"line": number, **report}, ensure_ascii=False), file=out)


def document_of(config: TranslateConfig, text: str | None) -> tuple[str, Document] | None:
    """Returns name and content of the document that the settings name; None if they name none."""
    packed = config.input is not None and Path(config.input).suffix.lower() in PACKED
    key = "translate.document" if config.document is not None else "input"
    name = config.document if config.document is not None else config.input if packed else None
    if name is None:
        return None
    if config.document is not None and (config.input is not None or text is not None):
        raise UserError(f"{key}={name}: give a document or lines, not both")
    if config.output is None:
        raise UserError(f"{key}={name}: output must name the translated document")
    if config.format != "text" or config.nbest > 1 or config.attention or not config.protect:
        raise UserError(
            f"{key}={name}: a document has its own format and one translation: leave format, nbest, "
            "attention and protect as they are"
        )
    try:
        if ending_of(config.output) != ending_of(name):
            raise DocumentError(f"output={config.output} must end in {ending_of(name)}: formats stay")
        with file_errors(key, name, "read"):
            return name, read_document(name, Path(name).read_bytes())
    except DocumentError as problem:
        raise UserError(f"{key}={name}: {problem}") from None


def markup_document(content: bytes, name: str, options: TextOptions) -> Document:
    """Returns a text with markup as a document of one passage."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UserError(f"{name}: not UTF-8 (byte 0x{content[problem.start]:02x} at {problem.start})") from None
    return Document([Passage(text, options)], lambda texts, _language: texts[0].encode())


def translate_document(
    served: LoadedModel,
    name: str,
    document: Document,
    config: TranslateConfig,
    options: TextOptions,
    certify: Certify,
) -> tuple[Losses, bytes]:
    """Translates a document; returns the losses, of sentences, and the new file. Certificates count its passages."""
    losses, texts, reports = Losses("sentence"), [], []
    for note in document.notes:
        logger.warning("%s: %s", name, note)
    try:
        for number, prepared in enumerate(_prepared(served, document, config, options)):
            for line, translation in prepared.translations():
                if translation.error and config.on_error == "raise":
                    raise UserError(f"{translation.error}. on_error=skip leaves such sentences empty")
                losses.add(line, translation)
            rebuilt = prepared.rebuild()
            texts.append(rebuilt.text)
            reports.append(rebuilt.report)
            certify(number, rebuilt.report)
        warn_of(reports)
        return losses, document.write(texts, served.target)
    except UserError as problem:
        raise UserError(f"{name}: {problem}") from None


def _prepared(
    served: LoadedModel, document: Document, config: TranslateConfig, options: TextOptions
) -> Iterator[Prepared]:
    """Yields the passages translated, some at a time; shows the progress of several to a user."""
    started, passages = time.monotonic(), document.passages
    shows = sys.stderr.isatty() and len(passages) > 1
    for start in range(0, len(passages), config.lines):
        texts = [
            prepare(
                passage.text,
                dataclasses.replace(passage.options, glossary=options.glossary),
                served.source,
                config.longest,
                served.target,
            )
            for passage in passages[start : start + config.lines]
        ]
        translate_all(texts, served)
        yield from texts
        if shows:
            done = min(start + config.lines, len(passages))
            rate = done / (time.monotonic() - started)
            print(f"\r{done:,} of {len(passages):,} passages, {rate:,.0f}/s ", end="", file=sys.stderr, flush=True)
    if shows:
        print(file=sys.stderr)


def warn_of(reports: Sequence[Mapping[str, Any]]) -> None:
    """Logs what of the texts is not where it was."""
    lost = [text for report in reports for text in report.get("lost", ())]
    if lost:
        examples = ", ".join(map(repr, lost[:MOST_SHOWN]))
        logger.warning(
            "%d things that must not change were lost: %s%s", len(lost), examples, ", ..." * (len(lost) > MOST_SHOWN)
        )
    returned = [reason for report in reports for reason in report.get("returned", ())]
    if returned:
        first = returned[0]
        logger.warning("texts that stay as they were: %d (%r: %s)", len(returned), first["text"][:80], first["why"])
    if halved := sum(len(report.get("long", ())) for report in reports):
        logger.warning("sentences that are longer than the model reads, translated in parts: %d", halved)


@contextlib.contextmanager
def attention_file(path: str | None) -> Iterator[Show]:
    """Yields a function that takes translated lines in order; the file is complete at the end of the block."""
    if path is None:
        yield lambda _number, _line, _translation: None
    elif path.lower().endswith(".json"):
        with json_list(path) as show:
            yield show
    else:
        with picture(Path(path)) as show:
            yield show


@contextlib.contextmanager
def json_list(path: str) -> Iterator[Show]:
    """Writes a list of objects as they come."""
    with open_output(path, "translate.attention") as out:
        out.write("[")
        between = "\n"

        def show(number: int, line: str | None, translation: Translation) -> None:
            nonlocal between
            record = {
                "line": number,
                "source": line,
                "text": translation.text,
                "truncated": translation.truncated,
                "sentences": [map_.record() for map_ in translation.attention],
            }
            out.write(between + json.dumps(record, ensure_ascii=False))
            between = ",\n"

        yield show
        out.write("\n]\n")


@contextlib.contextmanager
def picture(path: Path) -> Iterator[Show]:
    """Draws the first MOST_MAPS sentences."""
    maps: list[AttentionMap] = []
    left_out = 0

    def show(_number: int, _line: str | None, translation: Translation) -> None:
        nonlocal left_out
        room = MOST_MAPS - len(maps)
        maps.extend(translation.attention[:room])
        left_out += len(translation.attention[room:])

    yield show
    if not maps:
        logger.warning(f"{KEY}: {path} is not written: no line had a translation to show")
        return
    draw(maps, path)
    if left_out:
        logger.warning(f"{KEY}: {path} shows the first {len(maps)} sentences; {left_out} more would be in a .json")


def draw(maps: list[AttentionMap], path: Path) -> None:
    """Writes the picture atomically."""
    from dragoman.model.alignment.attention_plots import maps_picture, save

    with file_errors(KEY, path), atomic_path(path) as part:  # it keeps the suffix, which sets the format
        save(maps_picture(maps, [title(map_) for map_ in maps]), part)


def title(map_: AttentionMap) -> str:
    """Returns the words of the translation, and the head and reading."""
    text = " ".join(token for token in map_.target_tokens if token != END)
    return f"{text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + '…'}  ({map_.head}, {map_.reading})"
