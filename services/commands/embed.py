"""`dragoman embed`: texts as vectors, without a server.

One vector per line, as JSON Lines or a NumPy matrix; or one for each token of a line, as JSON Lines.
"""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.inference.sentence_vectors import (
    Floats,
    NetworkVectors,
    SentenceVectors,
    network_vectors,
    sentence_vectors,
)
from dragoman.model.ranges import check_ranges
from dragoman.services.commands.lines import batches, file_errors, open_input, open_output, read_lines
from dragoman.services.models.source import find_model
from dragoman.services.settings import EmbedConfig

logger = logging.getLogger(__name__)
Append = Callable[[NDArray[np.float32]], None]
Write = Callable[[Sequence[str | None], Floats], None]


def embed(config: EmbedConfig, text: str | None = None) -> int:
    """Writes one vector per line, or for the `text` of the command line; a line without a token gets zeros."""
    check_ranges("embed", config)
    named = str(config.output).endswith(".npy")
    if config.format == "npy" and not named:
        raise UserError("format=npy: a matrix needs a file; set output to a name that ends in .npy")
    config = replace(config, format=config.format or ("npy" if named else "json"))
    if config.format == "npy" and config.level == "token":
        raise UserError("embed.level=token: lines have different numbers of tokens; choose format=json")
    with contextlib.ExitStack() as stack:
        file, name = stack.enter_context(open_input(config.input, text=text))
        directory, _ = find_model(config)
        bundle = open_bundle(directory)
        open_vectors = network_vectors if config.level == "token" else sentence_vectors
        vectors = open_vectors(
            bundle, config.home.device, batch_tokens=config.batch_tokens, too_long=config.too_long, layer=config.layer
        )
        lines = read_lines(file, name, config.on_error)
        if config.level == "token":
            assert isinstance(vectors, NetworkVectors)
            return embed_tokens(vectors, lines, name, config)
        write = stack.enter_context(open_writer(config, vectors.width))
        texts, empty, failed = copy(vectors, lines, name, write, config)
    logger.info("%s texts, %s numbers each; %s of them zeros", f"{texts:,}", f"{vectors.width:,}", f"{empty:,}")
    if failed:
        logger.warning("%d lines are not UTF-8 and have zeros", failed)
    return compose.OK


def embed_tokens(vectors: NetworkVectors, lines: Iterator[str | None], name: str, config: EmbedConfig) -> int:
    """Writes an object per line: its tokens and their vectors, of length 1 if asked for."""
    number = tokens = 0
    with open_output(config.output) as out:
        for chunk in batches(lines, config.lines):
            places = [f"{name}, line {number + at}" for at in range(1, len(chunk) + 1)]
            for line, embedded in zip(chunk, vectors.tokens([line or "" for line in chunk], places), strict=True):
                rows = unit_rows(embedded.vectors) if config.unit else embedded.vectors
                values = {"tokens": embedded.pieces, "vectors": [plain_numbers(row) for row in rows]}
                out.write(as_json(number, line, values))
                number += 1
                tokens += len(embedded.ids)
            out.flush()
    logger.info("%s texts, %s tokens, %s numbers each", f"{number:,}", f"{tokens:,}", f"{vectors.width:,}")
    return compose.OK


def as_json(number: int, line: str | None, values: Mapping[str, object]) -> str:
    """Returns the record of a line: its values, or its error."""
    record = {"line": number, **({"error": "not UTF-8"} if line is None else values)}
    return json.dumps(record, ensure_ascii=False) + "\n"


def plain_numbers(vector: Floats) -> list[float]:
    """Returns the numbers with the fewest digits that are equal in float32."""
    return [float(str(value)) for value in vector]


def unit_rows(rows: Floats) -> Floats:
    """rows (N, D) -> the same directions with length 1; zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)  # (N, 1)
    return (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def copy(
    vectors: SentenceVectors, lines: Iterator[str | None], name: str, write: Write, config: EmbedConfig
) -> tuple[int, int, int]:
    """Embeds and writes `config.lines` lines at a time; returns how many texts, zeros and unreadable ones."""
    texts = empty = failed = 0
    for chunk in batches(lines, config.lines):
        places = [f"{name}, line {number}" for number in range(texts + 1, texts + len(chunk) + 1)]
        embedded = vectors([line or "" for line in chunk], places)
        write(chunk, unit_rows(embedded) if config.unit else embedded)
        texts += len(chunk)
        empty += int((~embedded.any(1)).sum())
        failed += sum(line is None for line in chunk)
    return texts, empty, failed


@contextlib.contextmanager
def open_writer(config: EmbedConfig, width: int) -> Iterator[Write]:
    """Yields the function that writes lines' vectors, of `width` numbers, in the requested format."""
    if config.format == "npy":
        with open_matrix(str(config.output), width, "output") as append:
            yield lambda _, rows: append(rows)
        return
    with open_output(config.output) as out:
        number = 0

        def write(lines: Sequence[str | None], rows: Floats) -> None:
            nonlocal number
            for line, vector in zip(lines, rows, strict=True):
                out.write(as_json(number, line, {"vector": plain_numbers(vector)}))
                number += 1
            out.flush()

        yield write


@contextlib.contextmanager
def open_matrix(path: str, width: int, key: str) -> Iterator[Append]:
    """Yields a function that appends rows (n, width) to a file of NumPy, which gets its name when the block ends well.

    The number of rows is at the file's beginning and is written last; NumPy leaves space for it in the header.
    """
    rows = 0

    def header() -> None:
        file.seek(0)
        shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, shape)

    def append(values: NDArray[np.float32]) -> None:
        nonlocal rows
        file.write(np.ascontiguousarray(values, "<f4").tobytes())
        rows += len(values)

    with contextlib.ExitStack() as stack:
        with file_errors(key, path):
            file = stack.enter_context(atomic_open(Path(path)))
        header()
        yield append
        header()
