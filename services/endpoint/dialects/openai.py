"""OpenAI's routes: /v1/models, /v1/embeddings, and /v1/chat/completions, which translates the last user's message.

Our models follow no instructions: the other messages are not read, which the answer's header X-Ignored-Parameters says.
The languages are those of the content (`source_lang_code`, `target_lang_code`), of the body (`source_lang`,
`target_lang`), of the model's name (`en-de`), or of the only pair that is served.
"""

import base64
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, Response
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from dragoman.model.errors import UserError
from dragoman.model.languages import split_pair
from dragoman.services.endpoint.answer import OPENAI
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.dialects.deepl_requests import IGNORED
from dragoman.services.endpoint.dialects.questions import ask, check_size, choose_pair, is_pair
from dragoman.services.endpoint.embeddings import embed
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import (
    CODE,
    Language,
    Parameters,
    Strings,
    Switch,
    Text,
    Wording,
    as_list,
    validate,
)
from dragoman.services.http.answers import as_json

WORDING = Wording(
    "you must provide a {name} parameter", "Invalid '{name}': {title} is expected", "Invalid '{name}': at most {most}"
)
REFUSED = ("tools", "functions", "audio", "logprobs", "response_format")
UNFELT = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "presence_penalty",
          "frequency_penalty", "logit_bias", "reasoning_effort")  # fmt: skip


class EmbeddingsRequest(Parameters):
    """The parameters of /v1/embeddings."""

    input: Annotated[str | Strings, Field(min_length=1, title="a string or a list of strings, not of tokens,")]
    model: Text
    encoding_format: Literal["float", "base64"] = Field("float", title="float or base64")
    dimensions: int | None = Field(None, ge=1, title="a whole number, 1 or more")


class Message(Parameters):
    """A message of a conversation; `content` is a text or a list of parts."""

    role: str
    content: Any = None


class ChatRequest(Parameters):
    """The parameters of /v1/chat/completions."""

    model: Text
    messages: Annotated[list[dict[str, Any]], Field(min_length=1, title="a list of messages")]
    stream: Switch = Field(False, title="true or false")
    stream_options: dict[str, Any] | None = Field(None, title="an object")
    n: int = Field(1, ge=1, le=16, title="a whole number, 1 or more")
    source_lang: Language | None = Field(None, title="a language code")
    target_lang: Language | None = Field(None, title="a language code")


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes, with OpenAI's parameters, answers and errors."""

    async def models(_: Call) -> Response:
        return as_json({"object": "list", "data": [model_record(*entry) for entry in served(endpoint).items()]})

    async def model(call: Call) -> Response:
        name = call.path_params["model"]
        return as_json(model_record(name, served(endpoint)[check_model(endpoint, name, served(endpoint))]))

    async def embeddings(call: Call) -> Response:
        request = validate(EmbeddingsRequest, call.parameters, WORDING)
        texts = as_list(request.input)
        check_size(texts, endpoint)
        endpoint.keys.charge(call.key, sum(map(len, texts)))
        vectors, origin = await embed(endpoint, call.key, request.model, texts)
        if request.dimensions not in (None, vectors.shape[1]):
            raise HTTPException(400, f"dimensions: the vectors of this model have {vectors.shape[1]} numbers")
        encode = encode_base64 if request.encoding_format == "base64" else encode_floats
        records = [
            {"object": "embedding", "index": place, "embedding": encode(vector)} for place, vector in enumerate(vectors)
        ]
        words = sum(map(count_words, texts))
        usage = {"prompt_tokens": words, "total_tokens": words}
        body = {"object": "list", "data": records, "model": request.model, "usage": usage}
        return as_json(body, headers=origin.headers())

    async def complete(call: Call) -> Response:
        values = call.parameters
        refused = [name for name in REFUSED if values.get(name) not in (None, False, [], {"type": "text"})]
        if refused:
            raise HTTPException(400, f"{refused[0]} is not supported: the models here translate, they do not converse")
        request = validate(ChatRequest, values, WORDING)
        text, source, target = last_message(request)
        source, target = languages_of(endpoint, request.model, source, target)
        named = request.model if request.model in endpoint.model_names() else None
        (answer,), headers = await ask(
            endpoint, call.key, [text], source, target, alternatives=request.n - 1, version=named
        )
        headers |= ignored(values)
        texts = [answer.text, *answer.alternatives][: request.n]
        facts = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": request.model}
        read, written = count_words(text), sum(map(count_words, texts))
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        if request.stream:
            with_usage = (request.stream_options or {}).get("include_usage") is True
            events = stream(facts, texts, usage if with_usage else None)
            return StreamingResponse(events, headers=headers, media_type="text/event-stream")
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
            for index, text in enumerate(texts)
        ]
        return as_json({**facts, "object": "chat.completion", "choices": choices, "usage": usage}, headers=headers)

    routes = Routes(app, "OpenAI: ", OPENAI)
    routes.add("GET", "/v1/models", models, "the models", schemas.OpenAIModels)
    routes.add("GET", "/v1/models/{model:path}", model, "a model", schemas.OpenAIModel)
    for path, function, about, kind, request in (
        ("/v1/embeddings", embeddings, "vectors of texts", schemas.OpenAIEmbeddings, EmbeddingsRequest),
        ("/v1/chat/completions", complete, "translate the last message", schemas.OpenAICompletion, ChatRequest),
    ):
        routes.add("POST", path, function, about, kind, request, origin=True)


def served(endpoint: Endpoint) -> dict[str, float]:
    """Returns the names of the models, with the time when each was loaded: translation models, their pairs, vectors."""
    names = endpoint.model_names()
    if names:
        names |= {f"{source}-{target}": min(names.values()) for source, target in endpoint.pairs()}
    for queue in (endpoint.encoder, endpoint.vectors):
        if queue is not None:
            origin = queue.model().origin
            names.setdefault(origin.name, origin.loaded)
    return names


def check_model(endpoint: Endpoint, name: str, names: Mapping[str, float]) -> str:
    """Returns the name. Raises HTTPException: 404, no model has it."""
    if name not in names:
        raise HTTPException(404, f"The model `{name}` does not exist: there are {', '.join(names)}")
    return name


def model_record(name: str, loaded: float) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(loaded), "owned_by": "dragoman"}


def last_message(request: ChatRequest) -> tuple[str, str | None, str | None]:
    """Returns the text of the last user's message, and the languages that it or the body names.

    Raises HTTPException: 400, there is no such message, or it has no text.
    """
    message = next((candidate for candidate in reversed(request.messages) if candidate.get("role") == "user"), None)
    content = message.get("content") if message else None
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part for part in parts if isinstance(part, dict) and part.get("type") in ("text", "input_text")]
    if len(texts) != len(parts) or not all(isinstance(part.get("text"), str) for part in texts):
        raise HTTPException(400, "Invalid 'messages': the last user's message must be a text")
    text = "\n".join(part["text"] for part in texts)
    if not text:
        raise HTTPException(400, "Invalid 'messages': the last user's message is empty")
    named = texts[0]  # as TranslateGemma has it
    return (
        text,
        named.get("source_lang_code") or request.source_lang,
        named.get("target_lang_code") or request.target_lang,
    )


def languages_of(endpoint: Endpoint, name: str, source: str | None, target: str | None) -> tuple[str | None, str]:
    """Returns the languages of a request to the model `name`.

    Raises HTTPException: 404 no model has this name, 400 the languages are not said.
    """
    pair = pair_named(endpoint, name)
    if pair is None:
        check_model(endpoint, name, served(endpoint))
    for code in (source, target):
        if code is not None and not (isinstance(code, str) and re.fullmatch(CODE, code)):
            raise HTTPException(400, "Invalid 'messages': a language must be a code")
    if pair is not None and target is None:
        return pair
    return choose_pair(endpoint, source, target)


def pair_named(endpoint: Endpoint, name: str) -> tuple[str, str] | None:
    """Returns the languages that a model's name stands for, in whatever spelling; None if it names no pair here."""
    try:
        source, target = split_pair(name)
    except UserError:
        return None
    return (source, target) if is_pair(endpoint, source, target) else None


def ignored(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the header that names what had no effect; empty if all had."""
    names = [name for name in UNFELT if values.get(name) is not None]
    if len(values["messages"]) > 1:
        names.insert(0, "messages but the last user's")
    return {IGNORED: ", ".join(names)} if names else {}


async def stream(facts: Mapping[str, Any], texts: Sequence[str], usage: Mapping[str, int] | None) -> AsyncIterator[str]:
    """Yields the answer as events, a word each: a translation is known only as a whole."""

    def event(index: int, delta: Mapping[str, str], reason: str | None = None) -> str:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return write({**facts, "object": "chat.completion.chunk", "choices": [choice]})

    def write(content: Mapping[str, Any]) -> str:
        return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"

    for index, text in enumerate(texts):
        yield event(index, {"role": "assistant", "content": ""})
        for word in re.findall(r"\s*\S+\s*$|\s*\S+|\s+", text):
            yield event(index, {"content": word})
        yield event(index, {}, "stop")
    if usage is not None:
        yield write({**facts, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def count_words(text: str) -> int:
    """Returns the number of words between blanks, which stands where OpenAI counts tokens."""
    return len(text.split())


def encode_floats(vector: np.ndarray[Any, np.dtype[np.float32]]) -> list[float]:
    """Returns the numbers, each as short as float32 allows."""
    return [float(str(number)) for number in vector]


def encode_base64(vector: np.ndarray[Any, np.dtype[np.float32]]) -> str:
    """Returns the numbers as little-endian float32 in base64, as OpenAI's clients ask for by default."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
