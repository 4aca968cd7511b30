"""`dragoman neighbours WORD query.in=TEXT`: the uses nearest to a word's use in a text, among those of other texts.

`query.picture` draws the uses of that word (model/inference/words_in_context.py).
"""

import itertools
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.inference.sentence_vectors import Floats, NetworkVectors, network_vectors
from dragoman.model.inference.words_in_context import SUFFIXES, Use, Uses, use_of, uses_in, uses_picture
from dragoman.model.shards.manifest import has_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.excerpt import excerpt
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.services.commands.lines import check_picture, file_errors, open_input, open_output, read_lines
from dragoman.services.models.vectors_source import QueryConfig, VectorsSource, newest_bundle, vectors_folder

logger = logging.getLogger(__name__)
FEWEST, MOST_DRAWN = 3, 300  # uses in a picture


def nearest_uses(config: QueryConfig, words: Sequence[str]) -> int:
    """Prints the nearest uses of each word as it is meant in `config.sentence`; returns 0."""
    if config.sentence is None or not words:
        raise UserError('neighbours: name the word too: dragoman neighbours bank query.in="He sat on the bank."')
    if config.texts is None:
        raise UserError("query.texts: null; name a file of lines, or a directory of shards, whose words are compared")
    if config.picture is not None and len(words) > 1:
        raise UserError(f"query.picture: shows the uses of one word, and the command line has {', '.join(words)}")
    check_picture("query.picture", config.picture, SUFFIXES)
    vectors = network_vectors(open_bundle(model_directory(config)), layer=config.layer, section="query")
    questions = [use_of(vectors, word, config.sentence) for word in words]
    uses = read_uses(config, config.texts, vectors)
    if config.picture is not None:
        draw(config, *questions[0], uses)
    with open_output(None) as out:
        for number, (use, vector) in enumerate(questions):
            neighbours = uses.nearest(vector, config.k, use)
            if config.format == "json":
                print(as_json(use, neighbours), file=out)
            else:
                print(("\n" if number else "") + as_text(use, neighbours), file=out)
    return 0


def model_directory(config: VectorsSource, section: str = "query") -> Path:
    """Returns the bundle that the section's `vectors` names, or that of the newest run with a network."""
    if config.vectors is not None:
        return vectors_folder(config, section, config.vectors)
    if bundle := newest_bundle(Path(config.home.runs), lambda kind: kind != "vectors"):
        logger.info("%s.vectors is not given: the network of the newest run, %s", section, bundle.parent.name)
        return bundle
    raise UserError(
        f"{section}.vectors: no run with a network in {config.home.runs}; name a run, a bundle or models:/NAME@ALIAS"
    )


def draw(config: QueryConfig, use: Use, vector: Floats, uses: Uses) -> None:
    """Draws the use and the first MOST_DRAWN others of its word, whatever their case."""
    rows = [
        row for row, other in enumerate(uses.words) if other.word.casefold() == use.word.casefold() and other != use
    ]
    if len(rows) < FEWEST:
        raise UserError(
            f"query.texts: {config.texts} has {len(rows)} uses of {use.word!r} besides; a picture needs {FEWEST}"
        )
    if len(rows) > MOST_DRAWN:
        logger.info("the picture shows the first %d of %d uses", MOST_DRAWN, len(rows))
    rows = rows[:MOST_DRAWN]
    uses_shown, vectors = [use, *(uses.words[row] for row in rows)], np.stack([vector, *uses.vectors[rows]])
    with file_errors("query.picture", config.picture):
        uses_picture(uses_shown, vectors, Path(str(config.picture)))


def read_uses(config: QueryConfig, texts: str, vectors: NetworkVectors) -> Uses:
    """Returns the words of the first `config.lines` different texts with their vectors."""
    kept = list(itertools.islice(dict.fromkeys(read_texts(config, texts, vectors)), config.lines))
    uses = uses_in(vectors, kept)
    logger.info("%s uses of words in %s texts", f"{len(uses.words):,}", f"{len(kept):,}")
    if not uses.words:
        raise UserError(f"query.texts: {texts} has no words")
    return uses


def read_texts(config: QueryConfig, texts: str, vectors: NetworkVectors) -> Iterator[str]:
    """Yields the texts of a file of lines, or those of the training split of a directory of shards."""
    if Path(texts).is_dir() and not has_manifest(Path(texts)):
        raise UserError(f"query.texts: {texts} is a directory without shards")
    if Path(texts).is_dir():
        reader = ShardReader(Path(texts), "train")
        tokenizer = load_pair(Path(texts), reader.manifest.tokenizer).source
        lines: Iterator[str | None] = itertools.chain.from_iterable(
            tokenizer.decode([source for source, _ in chunk.rows()]) for chunk in reader
        )
        yield from itertools.islice((line for line in lines if line), config.lines)
        return
    with open_input(texts, "query.texts") as (file, name):
        read = read_lines(file, name, config.on_error)
        yield from itertools.islice((line for line in read if line and line.strip()), config.lines)


def as_json(question: Use, neighbours: Sequence[tuple[Use, float]]) -> str:
    """Returns one object; `begin` and `end` are the word's characters in its sentence."""
    rows = [{**record(use), "similarity": similarity} for use, similarity in neighbours]
    return json.dumps({**record(question), "neighbours": rows}, ensure_ascii=False)


def record(use: Use) -> dict[str, object]:
    begin, end = use.span
    return {"word": use.word, "sentence": use.text, "begin": begin, "end": end}


def as_text(question: Use, neighbours: Sequence[tuple[Use, float]]) -> str:
    """Returns the use as a line, and below it one answer per line, aligned."""
    width = max((len(excerpt(use.word)) for use, _ in neighbours), default=0)
    rows = [
        f"  {excerpt(use.word):<{width}}  {similarity:7.4f}  {excerpt(use.marked)}" for use, similarity in neighbours
    ]
    return "\n".join([excerpt(question.marked), *rows])
