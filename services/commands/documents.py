"""`dragoman translate` of documents, and the certificates of what it translates."""

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from dragoman.model.errors import UserError
from dragoman.model.inference.losses import Losses
from dragoman.services.commands.output import file_errors, open_output
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.settings import TranslateConfig
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import prepare
from dragoman.services.texts.translating import translate_all

Certify = Callable[[int, Mapping[str, Any]], None]  # a line's number and its certificate
MOST_SHOWN = 5  # lost things in a message
logger = logging.getLogger(__name__)


@contextlib.contextmanager
def open_document(path: str | None) -> Iterator[tuple[BinaryIO, str]]:
    """Opens a file or standard input as it is, with its name for messages. Raises UserError: it cannot be read."""
    if path is None:
        if sys.stdin is None:
            raise UserError("translate.input: standard input is closed; name a file")
        yield sys.stdin.buffer, "standard input"
        return
    with contextlib.ExitStack() as stack:
        with file_errors("translate.input", path, "read"):
            file = stack.enter_context(Path(path).open("rb"))
        yield file, path


@contextlib.contextmanager
def report_file(path: str | None) -> Iterator[Certify]:
    """Yields a function that takes the certificates of lines in order, and writes them to a file if there is one."""
    if path is None:
        yield lambda _number, _report: None
        return
    with open_output(path, "translate", "report") as out:
        yield lambda number, report: print(json.dumps({"line": number, **report}, ensure_ascii=False), file=out)


def translate_document(
    served: LoadedModel,
    content: bytes,
    name: str,
    out: TextIO,
    config: TranslateConfig,
    options: TextOptions,
    certify: Certify,
) -> Losses:
    """Translates a document as a whole; returns the losses, of sentences.

    Raises UserError: it is not UTF-8, its markup cannot be read, or a sentence cannot be translated.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UserError(f"{name}: not UTF-8 (byte 0x{content[problem.start]:02x} at {problem.start})") from None
    try:
        document = prepare(text, options, served.source, config.longest, served.target, served.marks_capitals)
    except UserError as problem:
        raise UserError(f"{name}: {problem}") from None
    translate_all([document], served)
    losses = Losses("sentence")
    for line, translation in document.translations():
        if translation.error and config.on_error == "raise":
            raise UserError(f"{name}: {translation.error}. translate.on_error=skip leaves such sentences empty")
        losses.add(line, translation)
    rebuilt = document.rebuild()
    out.write(rebuilt.text)
    certify(0, rebuilt.report)
    warn_of([rebuilt.report])
    return losses


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
