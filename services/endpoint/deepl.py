"""DeepL's routes of texts: /v2/translate, /v2/languages and /v2/usage.

A language of the model is offered under the regional names that DeepL's clients insist on, too: EN-GB and EN-US for
English. Which of them is asked for makes no difference.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.model.languages import base_language, language_name
from dragoman.services.endpoint.call import admit, endpoint_of
from dragoman.services.endpoint.deepl_requests import IGNORED, WORDING, DeepLRequest
from dragoman.services.endpoint.requests import as_list, check_size, validate
from dragoman.services.endpoint.route_translator import MarkupError
from dragoman.services.endpoint.translation import Answer, Question
from dragoman.services.http.answers import as_json

UNLIMITED = 1_000_000_000_000  # DeepL's number for accounts without a limit
VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT"), "zh": ("zh-Hans",)}
PAIR = ("source_lang", "target_lang")  # names of the parameters, for messages


async def translate(request: Request) -> Response:
    """Translates.
    ---
    summary: "DeepL: translate texts"
    requestBody: {$ref: "#/components/requestBodies/DeepLRequest"}
    responses:
      200: {$ref: "#/components/responses/DeepLTranslations"}
      default: {$ref: "#/components/responses/DeepLError"}
    """
    endpoint, call = endpoint_of(request), await admit(request)
    asked = validate(DeepLRequest, call.parameters, WORDING)
    texts = as_list(asked.text)
    check_size(texts, endpoint.limits, too_large=413)
    endpoint.check_pair(asked.source_lang, asked.target_lang, PAIR, WORDING.wrong)
    question = Question(texts, asked.source_lang, asked.target_lang, options=asked.options(), key=call.key)
    try:
        answers, route = await endpoint.translate(question)
    except MarkupError:
        if question.options.format != "xml" or asked.tag_handling_version == "v2":
            raise
        html = dataclasses.replace(question.options, format="html")  # version 1 takes what is nearly XML
        answers, route = await endpoint.translate(dataclasses.replace(question, options=html))
    records = [_record(asked, *pair) for pair in zip(texts, answers, strict=True)]
    headers = {IGNORED: ignored} if (ignored := asked.ignored()) else {}
    return as_json({"translations": records}, headers=route.headers() | headers)


async def usage(request: Request) -> Response:
    """Tells the characters of a key.
    ---
    summary: "DeepL: characters used"
    responses:
      200: {$ref: "#/components/responses/DeepLUsage"}
      default: {$ref: "#/components/responses/DeepLError"}
    """
    endpoint, call = endpoint_of(request), await admit(request)
    used, limit = endpoint.keys.usage(call.key) if call.key.digest else (endpoint.metrics.characters["in"], None)
    return as_json({"character_count": used, "character_limit": UNLIMITED if limit is None else limit})


async def languages(request: Request) -> Response:
    """Lists the languages.
    ---
    summary: "DeepL: the languages"
    parameters: [{name: type, in: query, schema: {type: string, enum: [source, target]}}]
    responses:
      200: {$ref: "#/components/responses/DeepLLanguages"}
      default: {$ref: "#/components/responses/DeepLError"}
    """
    endpoint, call = endpoint_of(request), await admit(request)
    kind = call.parameters.get("type") or "source"
    if kind not in ("source", "target"):
        raise HTTPException(400, "Parameter 'type' is invalid. 'source' and 'target' are valid values.")
    sources, targets = endpoint.languages()
    if kind == "source":
        return as_json([_language(code) for code in sources])
    return as_json([{**_language(code), "supports_formality": False} for code in _with_variants(targets)])


ROUTES = [
    Route("/v2/translate", translate, methods=["POST"]),
    Route("/v2/translate", translate, include_in_schema=False),
    Route("/v2/usage", usage),
    Route("/v2/usage", usage, methods=["POST"], include_in_schema=False),
    Route("/v2/languages", languages),
    Route("/v2/languages", languages, methods=["POST"], include_in_schema=False),
]


def _record(request: DeepLRequest, text: str, answer: Answer) -> dict[str, Any]:
    record: dict[str, Any] = {"detected_source_language": base_language(answer.source).upper(), "text": answer.text}
    if request.show_billed_characters:
        record["billed_characters"] = len(text)
    if request.model_type:  # one model serves all types
        record["model_type_used"] = request.model_type.removeprefix("prefer_")
    return record


def _language(code: str) -> dict[str, Any]:
    return {"language": code.upper(), "name": language_name(code)}


def _with_variants(languages: Sequence[str]) -> list[str]:
    """Returns the languages, with the regional names under which DeepL's clients ask for some."""
    return list(dict.fromkeys(name for code in languages for name in (code, *VARIANTS.get(code, ()))))
