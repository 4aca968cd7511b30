"""The terms of a request: those of a stored glossary, and those that it brings along."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.model.languages import nearest
from dragoman.services.endpoint.glossaries import Glossaries, GlossaryNotFoundError
from dragoman.services.endpoint.translation import Question
from dragoman.services.texts.glossary import Glossary


async def with_terms(question: Question, stored: Glossaries, name: str | None, terms: Any) -> Question:
    """Returns the question with the terms of the stored glossary of this id, and with `terms`, which go before them:
    an object, or lines of source and target with a tab or an equals sign between them.

    Raises:
        HTTPException: 400, the key has no such glossary, the glossary no such languages, or the terms cannot be read.
    """
    own_terms: dict[str, str] = {}
    if name:
        try:
            own_terms |= await asyncio.to_thread(_stored, stored, question.key.digest, name, question)
        except GlossaryNotFoundError as problem:
            raise HTTPException(400, f"Invalid request: glossary: {problem.detail}") from None
    try:
        rows = (
            terms.items()
            if isinstance(terms, Mapping)
            else map(_split, filter(str.strip, str(terms or "").split("\n")))
        )
        glossary = Glossary.of([(str(source), str(target)) for source, target in rows], "terms")
    except UserError as problem:
        raise HTTPException(400, f"Invalid request: {problem}") from None
    options = dataclasses.replace(question.options, glossary=Glossary(own_terms | dict(glossary.terms)))
    return dataclasses.replace(question, options=options)


def _stored(stored: Glossaries, owner: str, name: str, question: Question) -> dict[str, str]:
    """Returns a glossary's terms; without a source language those of its only dictionary into the target."""
    source = question.source
    if source is None:
        every = stored.get(owner, name).dictionaries
        sources = {dictionary.source for dictionary in every if nearest(question.target, (dictionary.target,))}
        if len(sources) != 1:
            raise GlossaryNotFoundError(f"It has {len(sources)} dictionaries into {question.target}: name the source")
        source = sources.pop()
    return stored.terms(owner, name, source, question.target)


def _split(line: str) -> tuple[str, str]:
    source, _, target = line.partition("\t" if "\t" in line else "=")
    return source, target
