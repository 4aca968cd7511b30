"""`dragoman embed`: texts as vectors, without a server; one vector per line, as JSON Lines or a NumPy matrix."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from conf import compose
from model.errors import UserError
from model.inference.sentence_vectors import Floats, SentenceVectors, open_sentence_vectors
from model.ranges import check_ranges
from services.commands.lines import batches, open_input, read_lines
from services.commands.matrix import open_matrix
from services.commands.output import open_output
from services.models.source import bundle_directory
from services.settings import EmbedConfig

logger = logging.getLogger(__name__)
Write = Callable[[Sequence[str | None], Floats], None]


def embed(config: EmbedConfig, text: str | None = None) -> int:
    """Writes one vector per line, in order, or for the `text` of the command line; a line without a token gets zeros.

    Raises:
        UserError: an unreadable input, a line that is not UTF-8 or too long, or a bundle without sentence vectors.
    """
    check_ranges("embed", config)
    if config.format == "npy" and config.output is None:
        raise UserError("embed.format=npy: a matrix needs a file; set embed.output to its name")
    with contextlib.ExitStack() as stack:
        file, name = stack.enter_context(open_input(config.input, "embed", text=text))
        directory, _ = bundle_directory(config, "sentence")
        vectors = open_sentence_vectors(
            directory, config.device, batch_tokens=config.batch_tokens, too_long=config.too_long
        )
        write = stack.enter_context(open_writer(config, vectors.width))
        lines = read_lines(file, name, config.on_error, "embed")
        texts, empty, failed = copy(vectors, lines, name, write, config)
    logger.info("%s texts, %s numbers each; %s of them zeros", f"{texts:,}", f"{vectors.width:,}", f"{empty:,}")
    if failed:
        logger.warning("%d lines are not UTF-8 and have zeros", failed)
    return compose.OK


def copy(
    vectors: SentenceVectors, lines: Iterator[str | None], name: str, write: Write, config: EmbedConfig
) -> tuple[int, int, int]:
    """Embeds and writes `config.lines` lines at a time; returns how many texts, zeros and unreadable ones."""
    texts = empty = failed = 0
    for chunk in batches(lines, config.lines):
        places = [f"{name}, line {number}" for number in range(texts + 1, texts + len(chunk) + 1)]
        found = vectors([line or "" for line in chunk], places)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)  # (n, 1)
        if config.unit:
            found = (found / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
        write(chunk, found)
        texts += len(chunk)
        empty += int((lengths == 0).sum())
        failed += sum(line is None for line in chunk)
    return texts, empty, failed


@contextlib.contextmanager
def open_writer(config: EmbedConfig, width: int) -> Iterator[Write]:
    """Yields the function that writes lines' vectors, of `width` numbers, in the requested format."""
    if config.format == "npy":
        with open_matrix(str(config.output), width, "embed.output") as append:
            yield lambda _, found: append(found)
        return
    with open_output(config.output, "embed") as out:
        number = 0

        def write(lines: Sequence[str | None], found: Floats) -> None:
            nonlocal number
            for line, vector in zip(lines, found, strict=True):
                record: dict[str, object] = {"line": number}
                if line is None:
                    record["error"] = "not UTF-8"
                else:  # the shortest number that is equal in float32
                    record["vector"] = [float(str(value)) for value in vector]
                out.write(json.dumps(record) + "\n")
                number += 1
            out.flush()

        yield write
