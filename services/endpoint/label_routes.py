"""The routes of labels: POST /classify and /tag, in the shapes of Hugging Face's pipelines.

    /classify    {"inputs": TEXT} -> [{"label", "score"}, ...], the likeliest first
    /tag         {"inputs": TEXT} -> [{"entity", "score", "index", "word", "start", "end"}, ...], without words tagged O

A list of texts gives a list of answers.
`parameters` may say `top_k`, or `aggregation_strategy`: `simple` joins the words of a span.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic
from fastapi import FastAPI, Response
from pydantic import AfterValidator, BaseModel, Field
from starlette.exceptions import HTTPException

from dragoman.model.text.labelled_words import Label, TaggedWord, Words
from dragoman.services.endpoint import schemas
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import Parameters, Strings, check_limits, refuse, validate
from dragoman.services.http.answers import as_json
from dragoman.services.models.loaded_labeller import Labelled, LoadedLabeller
from dragoman.services.settings import Limits

NONE = "This endpoint labels no texts (the server's setting serve.labels names a model)"
OUTSIDE = "O"  # the tag of words outside of all spans
ListOfWords = Annotated[list[Strings], Field(fail_fast=True)]
Inputs = Annotated[str | Strings | ListOfWords, Field(title="a string, a list of strings, or a list of lists of words")]


class Settings(BaseModel):
    """The settings of an answer; others that Hugging Face's clients send have no effect."""

    top_k: Annotated[int, Field(ge=1)] | None = None
    aggregation_strategy: Literal["none", "simple"] | None = None


class LabelRequest(Parameters):
    """The parameters of every route."""

    inputs: Inputs
    parameters: Settings | None = Field(None, title="an object with top_k or aggregation_strategy")

    @property
    def texts(self) -> list[Words]:
        """Returns the texts; lists of words are taken as they are."""
        inputs = [self.inputs] if isinstance(self.inputs, str) else self.inputs
        return [Words.split(text) if isinstance(text, str) else Words.given(text) for text in inputs]

    @classmethod
    def within(cls, limits: Limits) -> "type[LabelRequest]":
        """Returns the class with limits on texts and characters."""

        def check_size(inputs: Any) -> Any:
            texts = [inputs] if isinstance(inputs, str) else inputs
            size = sum(len(text) if isinstance(text, str) else sum(map(len, text)) for text in texts)
            check_limits(limits, len(texts), size)
            if not all(text if isinstance(text, str) else text and all(text) for text in texts):
                refuse("Invalid request: inputs holds an empty text or word")
            return inputs

        inputs = Annotated[Inputs, Field(min_length=1), AfterValidator(check_size)]
        return pydantic.create_model(cls.__name__, __base__=cls, inputs=inputs)


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes; without a queue they answer that no texts are labelled here."""
    queue, limits, keys = endpoint.labels, endpoint.limits, endpoint.keys
    checked = LabelRequest.within(limits)

    async def ask(call: Call) -> tuple[LabelRequest, LoadedLabeller, list[Any]]:
        if queue is None:
            raise HTTPException(404, NONE)
        request = validate(checked, call.parameters)
        served = queue.model()
        texts = request.texts
        for text in texts if served.tags else ():
            check_length(served, text)
        keys.charge(call.key, sum(len(text.text) for text in texts))
        settings = request.parameters or Settings()
        labelled = await queue.ask(served, texts, key=call.key)
        return request, served, [shape(labels, text, settings) for labels, text in zip(labelled, texts, strict=True)]

    async def answer(call: Call, tags: bool) -> Response:
        request, served, rows = await ask(call)
        if served.tags != tags:
            name, route = ("words", "/tag") if served.tags else ("texts", "/classify")
            raise HTTPException(400, f"Invalid request: the model labels {name}: ask {route}")
        return as_json(rows[0] if isinstance(request.inputs, str) else rows, headers=served.origin.headers())

    async def classify(call: Call) -> Response:
        return await answer(call, False)

    async def tag(call: Call) -> Response:
        return await answer(call, True)

    for path, route, summary, answers in (
        ("/classify", classify, "The class of a text, with probabilities", schemas.Class),
        ("/tag", tag, "The tag of each word of a text", schemas.Tag),
    ):
        kind = schemas.one_or_many(schemas.many(answers))
        Routes(app).add("POST", path, route, summary, kind, checked, origin=True)


def check_length(served: LoadedLabeller, text: Words) -> None:
    """Raises HTTPException 400 if a text has more tokens than the model reads."""
    most, count = served.labeller.bundle.positions, served.labeller.count_tokens(text.words)
    if most is not None and count > most:
        raise HTTPException(400, f"Invalid request: a text has {count} tokens, and the model reads {most}; split it")


def shape(labels: Labelled, text: Words, settings: Settings) -> list[dict[str, Any]]:
    """Returns the labels of one text as Hugging Face's pipelines write them."""
    if labels and isinstance(labels[0], Label):
        return [vars(label).copy() for label in labels[: settings.top_k]]
    words: list[TaggedWord] = labels  # type: ignore[assignment]  # of the two kinds
    if settings.aggregation_strategy == "simple":
        return joined(words, text)
    return [
        {
            "entity": word.tag,
            "score": word.score,
            "index": number,
            "word": word.word,
            "start": word.start,
            "end": word.end,
        }
        for number, word in enumerate(words, 1)
        if word.tag != OUTSIDE
    ]


def joined(words: Sequence[TaggedWord], text: Words) -> list[dict[str, Any]]:
    """Returns the spans of words with one tag, or of B- and I- of one kind, with the mean of their scores."""
    groups: list[list[TaggedWord]] = []
    before = OUTSIDE
    for word in words:
        if groups and word.tag != OUTSIDE and not word.tag.startswith("B-") and kind(word.tag) == kind(before):
            groups[-1].append(word)
        elif word.tag != OUTSIDE:
            groups.append([word])
        before = word.tag
    return [
        {
            "entity_group": kind(group[0].tag),
            "score": sum(tagged.score for tagged in group) / len(group),
            "word": text.text[group[0].start : group[-1].end],
            "start": group[0].start,
            "end": group[-1].end,
        }
        for group in groups
    ]


def kind(tag: str) -> str:
    """Returns the kind of a tag, without its B- or I-."""
    return tag[2:] if tag[1:2] == "-" and tag[0] in "BI" else tag
