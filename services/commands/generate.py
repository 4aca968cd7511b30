"""`dragoman generate`: continues texts with a language model, without a server; prompt, file or standard input.

To a terminal the text is written as it comes, token by token.
"""

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from dragoman.conf import compose
from dragoman.model.bundles.language import TextBundle
from dragoman.model.decoding.generation import (
    Generated,
    Token,
    continue_prompts,
    generate,
    make_continuation,
    read_prompt,
)
from dragoman.model.errors import UserError
from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.ranges import check_ranges
from dragoman.services.commands.lines import batches, open_input, open_output, read_lines
from dragoman.services.models.source import open_text_bundle
from dragoman.services.settings import ContinueConfig

logger = logging.getLogger(__name__)
HALF = "\ufffd"  # an incomplete character, of which only some bytes have been sampled


def continue_texts(config: ContinueConfig, text: str | None = None) -> int:
    """Continues the prompt, which may be the `text` of the command line, or all lines in order."""
    if text is not None:
        if config.prompt is not None:
            raise UserError(f"generate.prompt: {text[:60]!r} is on the command line too; give one of them")
        config = replace(config, prompt=text)
    config.check()
    check_ranges("generate", config)
    with contextlib.ExitStack() as stack:
        prompts, at_once = read_prompts(config, stack)
        out = stack.enter_context(open_output(config.output))
        bundle = open_text_bundle(config, "language")
        writer = Writer(config, bundle, bundle.language_network.to(config.home.device))
        streamed = config.format == "text" and out.isatty()
        for chunk in batches(prompts, at_once):
            if streamed:
                writer.stream(chunk, out)
            else:
                writer.write(chunk, out)
    writer.warn()
    return compose.OK


def read_prompts(config: ContinueConfig, stack: contextlib.ExitStack) -> tuple[Iterator[str | None], int]:
    """Returns the prompts, None for a skipped line, and how many to take at a time; `stack` closes the file."""
    if config.prompt is not None:
        if config.input is not None:
            raise UserError("input: a file of prompts, or generate.prompt, not both")
        return iter([config.prompt.replace("\\n", "\n")]), 1
    file, name = stack.enter_context(open_input(config.input))
    # A user at the keyboard wants each answer at once.
    return read_lines(file, name, config.on_error), 1 if file.isatty() else config.at_once


class Writer:
    """Writes the network's continuations, and counts what to warn about."""

    def __init__(self, config: ContinueConfig, bundle: TextBundle, network: LanguageNetwork) -> None:
        self.config, self.bundle, self.network = config, bundle, network
        self.line = 0  # in the input
        self.texts = 0  # written so far
        self.failed = self.unknown = self.cut = 0

    def write(self, prompts: Sequence[str | None], out: TextIO) -> None:
        """Writes all texts of these prompts together; None, an undecodable line, gives an empty line or an error."""
        self._count(prompts)
        texts = [prompt for prompt in prompts if prompt is not None]
        bundle = self.bundle
        generations = iter(generate(self.network, bundle.tokenizer, texts, self.config, bundle.normalisation))
        for prompt in prompts:
            if prompt is None:
                out.write(self._record({"error": "not UTF-8"}) if self.config.format == "json" else "\n")
            else:
                for sample, generated in enumerate(next(generations)):
                    self._write_one(prompt, sample, generated, out)
            self.line += 1
        out.flush()

    def stream(self, prompts: Sequence[str | None], out: TextIO) -> None:
        """Writes one text after the other, each token as it is sampled."""
        self._count(prompts)
        for prompt in prompts:
            for sample in range(self.config.samples):
                if prompt is not None:
                    self._separate(out)
                    self._stream(prompt, sample, out)
                self.texts += 1
            self.line += 1

    def warn(self) -> None:
        """Warns about unusual prompts."""
        if self.unknown:
            logger.warning("%d tokens of the prompts are not in the model's vocabulary", self.unknown)
        if self.cut:
            positions = self.network.max_positions
            logger.warning("%d prompts are longer than the model's %s positions: their end counts", self.cut, positions)
        if self.failed:
            logger.warning("%d lines are not UTF-8 and were left out", self.failed)

    def _write_one(self, prompt: str, sample: int, generated: Generated, out: TextIO) -> None:
        if self.config.format == "json":
            values = {
                "sample": sample,
                "prompt": prompt,
                "text": generated.text,
                "log_probability": round(generated.log_probability, 6),
                "tokens": generated.tokens,
                "ended": generated.ended,
            }
            out.write(self._record(values))
        else:
            self._separate(out)
            out.write((prompt if self.config.echo else "") + generated.text + "\n")
        self.texts += 1

    def _stream(self, prompt: str, sample: int, out: TextIO) -> None:
        read = read_prompt(self.bundle.tokenizer, prompt, self.bundle.normalisation)
        out.write(prompt if self.config.echo else "")
        out.flush()
        drawn: list[Token] = []
        printed = ""
        for tokens in continue_prompts(self.network, [read.ids], [sample], self.config):
            drawn += tokens
            text = make_continuation(self.bundle.tokenizer, read, drawn, self.config.lines).text
            whole = text.rstrip(HALF)
            if whole.startswith(printed):
                out.write(whole[len(printed) :])
                out.flush()
                printed = whole
        out.write("\n")
        out.flush()

    def _separate(self, out: TextIO) -> None:
        """Writes an empty line between texts that may have several lines."""
        if self.texts and self.config.lines != 1:
            out.write("\n")

    def _record(self, values: dict[str, object]) -> str:
        return json.dumps({"line": self.line, **values}, ensure_ascii=False) + "\n"

    def _count(self, prompts: Sequence[str | None]) -> None:
        for prompt in prompts:
            if prompt is None:
                self.failed += 1
                continue
            read = read_prompt(self.bundle.tokenizer, prompt, self.bundle.normalisation)
            self.unknown += read.unknown
            self.cut += self.network.max_positions is not None and len(read.ids) > self.network.max_positions
