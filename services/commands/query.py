"""`dragoman neighbours WORD...` and `dragoman analogy A B C`: questions to word vectors, without a server.

Without words on the command line it reads lines: any number of words, or three for each analogy. With query.in=TEXT
the words are those of the text, as they are meant there (services/commands/context.py).
"""

import contextlib
import itertools
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from dragoman.conf import compose
from dragoman.conf.options import positional
from dragoman.conf.words import quote_text
from dragoman.model.errors import UserError
from dragoman.model.ranges import check_ranges
from dragoman.model.text.excerpt import excerpt
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.services.commands.lines import open_input, open_output, read_lines
from dragoman.services.models.home import run_section
from dragoman.services.models.vectors_source import QueryConfig, open_vectors

logger = logging.getLogger(__name__)
Verb = Literal["neighbours", "analogy"]
DIGITS = 6  # of a similarity; float32 has about 7
IN, KEY = "query.in=", "query.sentence="  # the short form is no setting: `in` is a word of Python


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code; its first word is the command."""
    verb: Verb = "analogy" if argv[0] == "analogy" else "neighbours"
    written = [KEY + word.removeprefix(IN) if word.startswith(IN) else word for word in argv[1:]]
    words, rest = positional([quote_text(word, KEY) if word.startswith(KEY) else word for word in written])
    return run_section(lambda config: query(verb, config, words), "query", QueryConfig, rest, verb)


def query(verb: Verb, config: QueryConfig, words: Sequence[str] = ()) -> int:
    """Answers the given words, else those that it reads, and prints each answer as it is found."""
    check_ranges("query", config)
    if config.sentence is not None:
        if verb == "analogy":
            raise UserError("query.sentence: an analogy is between words without a text; ask dragoman neighbours")
        # Loads torch, which words without a text do not need.
        from dragoman.services.commands.context import nearest_uses

        return nearest_uses(config, words)
    if config.picture is not None:
        raise UserError("query.picture: draws the uses of a word in a text; name it: query.in=TEXT")
    with contextlib.ExitStack() as stack:
        questions: Iterable[Sequence[str]]
        if words:
            questions = questions_of(verb, words, "the command line")
        else:
            file, name = stack.enter_context(open_input(config.input))
            lines = enumerate(read_lines(file, name, config.on_error), 1)
            split = (questions_of(verb, (line or "").split(), f"{name}, line {number}") for number, line in lines)
            questions = itertools.chain.from_iterable(split)
        embeddings = open_vectors(config, "query").embeddings
        out = stack.enter_context(open_output(None))
        failed = 0
        for number, question in enumerate(questions):
            result = answer(question, embeddings, config)
            failed += "error" in result
            if config.format == "json":
                print(json.dumps(result, ensure_ascii=False), file=out, flush=True)
            else:
                print(("\n" if number else "") + as_text(result), file=out, flush=True)
    if failed:
        logger.warning("%d questions have no answer", failed)
    return compose.OK


def questions_of(verb: Verb, words: Sequence[str], where: str) -> list[Sequence[str]]:
    """Returns the words of each question: one for neighbours, three for an analogy."""
    size = 1 if verb == "neighbours" else 3
    if len(words) % size:
        raise UserError(f"{where}: an analogy has three words, A B C (A is to B as C is to ?); there are {len(words)}")
    return [words[first : first + size] for first in range(0, len(words), size)]


def answer(words: Sequence[str], embeddings: Embeddings, config: QueryConfig) -> dict[str, Any]:
    """Returns the neighbours of a word, or the answers to an analogy; with the error if errors are skipped."""
    try:
        if len(words) == 1:
            near = embeddings.neighbours(words[0], config.k, restrict=config.restrict)
            rows = [{"word": one.word, "similarity": round(one.similarity, DIGITS)} for one in near]
            return {"word": words[0], "neighbours": rows}
        a, b, c = words
        best = embeddings.analogy(a, b, c, config.k, config.method, config.restrict)
        rows = [{"word": one.word, "score": round(one.similarity, DIGITS)} for one in best]
        return {"a": a, "b": b, "c": c, "method": config.method, "answers": rows}
    except UserError as problem:
        if config.on_error == "raise":
            raise UserError(f"{problem} on_error=skip skips such questions") from None
        return {"words": list(words), "error": str(problem)}


def as_text(result: dict[str, Any]) -> str:
    """Returns the question as a line, and below it one answer per line, aligned."""
    if "error" in result:
        return f"{excerpt(' '.join(result['words']))}\n  {excerpt(result['error'])}"
    if "neighbours" in result:
        title, rows = (
            excerpt(result["word"]),
            [(excerpt(neighbour["word"]), neighbour["similarity"]) for neighbour in result["neighbours"]],
        )
    else:
        title = excerpt(f"{result['a']} : {result['b']} = {result['c']} : ?")
        rows = [(excerpt(answer_row["word"]), answer_row["score"]) for answer_row in result["answers"]]
    width = max((len(word) for word, _ in rows), default=0)
    return "\n".join([title, *(f"  {word:<{width}}  {score:7.4f}" for word, score in rows)])
