"""`dragoman translate`: translates lines of files or standard input, without a server."""

import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.inference.losses import Losses
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.model.languages import MANY, nearest
from dragoman.model.ranges import check_ranges
from dragoman.model.settings import AlignmentConfig, DecodeConfig
from dragoman.model.text.sentences import join, split
from dragoman.services.commands.documents import KEY as ATTENTION
from dragoman.services.commands.documents import (
    SUFFIXES,
    Certify,
    Show,
    attention_file,
    document_of,
    markup_document,
    open_document,
    report_file,
    translate_document,
    warn_of,
)
from dragoman.services.commands.lines import (
    batches,
    check_picture,
    file_errors,
    flat,
    open_input,
    open_output,
    read_lines,
    to_column,
)
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.source import Loader
from dragoman.services.settings import TranslateConfig
from dragoman.services.texts.glossary import read_glossary
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import prepare
from dragoman.services.texts.translating import translate_all


def translate(
    config: TranslateConfig,
    decode: DecodeConfig,
    overrides: Sequence[str] = (),
    alignment: AlignmentConfig | None = None,
    text: str | None = None,
) -> int:
    """Translates all lines in order, or the `text` of the command line; an empty line gives an empty line."""
    check_picture(ATTENTION, config.attention, SUFFIXES)
    check_ranges("translate", config)
    options = text_options(config)
    if document := document_of(config, text):
        served = into(Loader(config, decode, overrides, alignment).load(), config.to)
        options = with_files(options, config, served)
        with report_file(config.report) as certify:
            losses, content = translate_document(served, *document, config, options, certify)
            with file_errors("output", config.output):
                atomic_write(Path(str(config.output)), content)
        losses.warn()
        return compose.OK
    opened = (
        open_input(config.input, languages=lambda: (served.source,), text=text)
        if options.format == "text" or text is not None
        else open_document(config.input)
    )
    with opened as (file, name), open_output(config.output) as out:  # a mistake in a path costs no model
        served = into(Loader(config, decode, overrides, alignment).load(), config.to)
        options = with_files(options, config, served)
        if config.attention is not None:
            served = served.aligning
        if config.nbest > served.decode.candidates:
            raise UserError(
                f"translate.nbest: {config.nbest} is more than the search finds ({served.decode.candidates}); "
                f"decode.beam={config.nbest} finds as many"
            )
        with attention_file(config.attention) as show:
            # A user at the keyboard wants each answer at once.
            at_a_time = 1 if file.isatty() else config.lines
            with report_file(config.report) as certify:
                if options.format == "text":
                    lines = read_lines(file, name, config.on_error)
                    losses = copy(served, lines, out, config, at_a_time, show, options, certify)
                else:
                    markup = markup_document(file.read(), name, options)
                    losses, content = translate_document(served, name, markup, config, options, certify)
                    out.write(content.decode())
    losses.warn(advice="; translate.split=true translates them sentence by sentence")
    return compose.OK


def into(served: LoadedModel, target: str | None) -> LoadedModel:
    """Returns the model for the target language that `translate.to` asks for."""
    pairs = [pair for pair in served.prefixes if served.target == MANY] or [(served.source, served.target)]
    targets = tuple(dict.fromkeys(language for _, language in pairs))
    code = nearest(target, targets) if target else targets[0] if len(targets) == 1 else None
    if code is None:
        raise UserError(f"translate.to={target or 'null'}: this model translates into {', '.join(targets)}; choose one")
    return served.into(*next(pair for pair in pairs if pair[1] == code))


def text_options(config: TranslateConfig) -> TextOptions:
    """Returns what the settings ask of a text."""
    if raw(config) and (config.glossary or config.report):
        key = "glossary" if config.glossary else "report"
        raise UserError(f"translate.{key} needs translate.protect=true and format=text, json or a document's")
    form = config.format
    if form in ("html", "xml", "markdown") and (config.attention or config.nbest > 1):
        raise UserError(f"format={form} gives one translation: translate.nbest=1, translate.attention=null")
    return TextOptions(
        format=form if form == "html" or form == "xml" or form == "markdown" else "text",
        split_sentences="on" if config.split or form in ("html", "xml", "markdown") else "off",
    )


def with_files(options: TextOptions, config: TranslateConfig, served: LoadedModel) -> TextOptions:
    """Returns the options with the glossary of the model's languages."""
    if not config.glossary:
        return options
    glossary = read_glossary(config.glossary, "translate.glossary", served.source, served.target)
    return dataclasses.replace(options, glossary=glossary)


def raw(config: TranslateConfig) -> bool:
    """Returns True if the output is the model's own."""
    return not config.protect or config.format == "nbest"


def copy(
    served: LoadedModel,
    lines: Iterator[str | None],
    out: TextIO,
    config: TranslateConfig,
    at_a_time: int,
    show: Show,
    options: TextOptions,
    certify: Certify,
) -> Losses:
    """Translates, writes and shows `at_a_time` lines after another; returns the losses."""
    done, losses = 0, Losses()
    started = time.monotonic()
    progress = sys.stderr.isatty() and at_a_time > 1
    for chunk in batches(lines, at_a_time):
        reports: list[dict[str, Any]] = []
        answers = translate_lines(served, [line or "" for line in chunk], config, options, reports)
        warn_of(reports)
        for number, (line, answer) in enumerate(zip(chunk, answers, strict=True), done):
            if answer.error and config.on_error == "raise":
                raise UserError(f"line {number + 1}: {answer.error}. on_error=skip leaves such lines empty")
            losses.add(line, answer)
            report = reports[number - done] if reports else None
            out.write(format_translation(number, line, answer, config.format, report))
            if report is not None:
                certify(number, report)
            show(number, line, answer)
        out.flush()
        done += len(chunk)
        if progress:
            rate = done / (time.monotonic() - started)
            print(f"\r{done:,} lines, {rate:,.0f} lines/s ", end="", file=sys.stderr, flush=True)
    if progress:
        print(file=sys.stderr)
    return losses


def translate_lines(
    served: LoadedModel,
    lines: list[str],
    config: TranslateConfig,
    options: TextOptions | None = None,
    reports: list[dict[str, Any]] | None = None,
) -> list[Translation]:
    """Returns one translation per line, whole or joined from its sentences: then the k-th best of each together.

    The score of a joined one is the mean of its sentences', its log-probability their sum. `reports` gets the
    certificate of every line, unless the model's own output is asked for.
    """
    if raw(config) and not config.split:
        return served.translate(lines, config.nbest)
    if raw(config):
        return _translate_split(served, lines, config)
    options = options or with_files(text_options(config), config, served)
    texts = [prepare(line, options, served.source, config.longest, served.target) for line in lines]
    translate_all(texts, served, config.nbest)
    answers = []
    for text in texts:
        parts = [part for _, part in text.translations()]
        ranks = min(config.nbest, max((len(part.nbest) for part in parts), default=1)) or 1
        rebuilt = [text.rebuild(rank=rank) for rank in range(ranks)]
        nbest = [_joined(alternative.text, parts, rank) for rank, alternative in enumerate(rebuilt)]
        best = nbest[0]
        answers.append(Translation.joined(best.text, best.score, nbest if parts else [], parts))
        if reports is not None:
            reports.append(rebuilt[0].report)
    return answers


def _translate_split(served: LoadedModel, lines: list[str], config: TranslateConfig) -> list[Translation]:
    pieces = [split(line, config.longest, served.source) for line in lines]
    translations = iter(served.translate([piece.text for line in pieces for piece in line if piece.text], config.nbest))
    answers = []
    for line in pieces:
        parts = [next(translations) if piece.text else None for piece in line]
        real = [part for part in parts if part is not None]
        ranks = max((len(part.nbest) for part in real), default=0)
        texts = [
            join(line, ["" if part is None else _alternative_at(part, rank).text for part in parts])
            for rank in range(ranks)
        ]
        nbest = [_joined(text, real, rank) for rank, text in enumerate(texts)]
        text, score = (nbest[0].text, nbest[0].score) if nbest else ("", 0.0)
        answers.append(Translation.joined(text, score, nbest, real))
    return answers


def _joined(text: str, parts: Sequence[Translation], rank: int) -> Alternative:
    """Returns the text with the scores of its parts' alternatives."""
    chosen = [_alternative_at(part, rank) for part in parts]
    score = sum(alternative.score for alternative in chosen) / max(1, len(chosen))
    return Alternative(text, score, sum(alternative.log_probability for alternative in chosen))


def format_translation(
    number: int, line: str | None, answer: Translation, form: str, report: Mapping[str, Any] | None = None
) -> str:
    """Returns the output lines of an answer, with line ends. `number` counts from 0, as in Moses' n-best lists."""
    if form == "text":
        return flat(answer.text) + "\n"
    alternatives = answer.nbest or [Alternative("", 0.0)]
    if form == "nbest":
        return "".join(
            f"{number} ||| {to_column(alternative.text)} ||| {alternative.score:.4f}\n" for alternative in alternatives
        )
    record = {
        "line": number,
        "source": line,
        "text": answer.text,
        "score": round(answer.score, 6),
        "nbest": [{"text": alternative.text, "score": round(alternative.score, 6)} for alternative in answer.nbest],
        "truncated": answer.truncated,
        "unknown": answer.unknown,
        "missing": answer.missing,
        "loops": answer.loops,
        "loop_broken": answer.loop_broken,
        "error": "not UTF-8" if line is None else answer.error,
        **({} if report is None else {"report": report}),
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _alternative_at(translation: Translation, rank: int) -> Alternative:
    """Returns its rank-th best, or its last one."""
    if not translation.nbest:
        return Alternative(translation.text, translation.score)
    return translation.nbest[min(rank, len(translation.nbest) - 1)]
