"""DeepL's routes: /v2/translate, /v2/languages, /v2/usage, /v3/languages; /v2/document says that there are none yet.

A language of the model is offered under the regional names that DeepL's clients insist on, too: EN-GB and EN-US for
English. Which of them is asked for makes no difference.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from model.languages import base_language
from services.endpoint import openapi
from services.endpoint.answer import as_json
from services.endpoint.answer import deepl as form
from services.endpoint.dialects.deepl_requests import WORDING, TranslationRequest, is_on, tags
from services.endpoint.dialects.questions import (
    admit,
    ask,
    check_pair,
    check_size,
    read_request,
    sources,
    targets,
    usage,
    use_glossaries,
)
from services.endpoint.endpoint import Endpoint, MarkupError
from services.endpoint.glossaries import GlossaryNotFoundError
from services.endpoint.languages import language_name
from services.endpoint.requests import validate
from services.endpoint.translation import Answer
from services.texts.glossary import Glossary
from services.texts.options import TextOptions

VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT"), "zh": ("zh-Hans",)}
UNLIMITED = 1_000_000_000_000  # DeepL's number for accounts without a limit
DOCUMENTS = "Documents are not translated by this server: send their texts to /v2/translate"
TRANSLATIONS = openapi.record(
    {
        "translations": openapi.array_of(
            openapi.record(
                {
                    "detected_source_language": openapi.TEXT,
                    "text": openapi.TEXT,
                    "billed_characters": openapi.COUNT,
                    "model_type_used": openapi.TEXT,
                },
                optional=("billed_characters", "model_type_used"),
            )
        )
    }
)
LANGUAGES = openapi.array_of(
    openapi.record(
        {"language": openapi.TEXT, "name": openapi.TEXT, "supports_formality": {"type": "boolean"}},
        optional=("supports_formality",),
    )
)
USAGE = openapi.record({"character_count": openapi.COUNT, "character_limit": openapi.COUNT})
answers = partial(openapi.answers, form=form)


def add_deepl_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes, with DeepL's parameters, answers and messages."""

    async def translate(request: Request) -> Response:
        asked = validate(TranslationRequest, await read_request(request, endpoint), WORDING)
        check_size(asked.texts, endpoint, 413)
        languages = asked.source_lang, asked.target_lang
        check_pair(endpoint, *languages, ("source_lang", "target_lang"), WORDING.wrong)
        options = options_of(asked, await terms_of(asked))
        try:
            found, headers = await ask(endpoint, asked.texts, *languages, options)
        except MarkupError:
            if options.format != "xml" or asked.tag_handling_version == "v2":
                raise
            html = dataclasses.replace(options, format="html")  # version 1 takes what is nearly XML
            found, headers = await ask(endpoint, asked.texts, *languages, html)
        records = [translation_record(asked, *pair) for pair in zip(asked.texts, found, strict=True)]
        return as_json({"translations": records}, headers=headers | asked.ignored())

    async def terms_of(asked: TranslationRequest) -> dict[str, str]:
        if not asked.glossary_id:
            return {}
        languages = asked.source_lang, asked.target_lang
        try:
            found: dict[str, str] = await use_glossaries(endpoint, "terms", asked.glossary_id, *languages)
            return found
        except GlossaryNotFoundError as problem:
            raise HTTPException(404, str(problem)) from None

    async def languages(request: Request) -> Response:
        values = await read_request(request, endpoint)
        kind = values.get("type") or "source"
        if kind not in ("source", "target"):
            raise HTTPException(400, "Parameter 'type' is invalid. 'source' and 'target' are valid values.")
        if kind == "source":
            return as_json([language_record(code) for code in sources(endpoint)])
        return as_json([{**language_record(code), "supports_formality": False} for code in with_variants(endpoint)])

    async def show_usage(request: Request) -> Response:
        await read_request(request, endpoint)
        used, limit = usage(endpoint)
        return as_json({"character_count": used, "character_limit": UNLIMITED if limit is None else limit})

    async def documents(request: Request) -> Response:
        admit(request, endpoint, dict(request.query_params))
        raise HTTPException(404, DOCUMENTS)

    told = answers(TRANSLATIONS, *(code for code in openapi.ERRORS), origin=True)
    app.post(
        "/v2/translate",
        summary="DeepL: translate texts",
        responses=told,
        openapi_extra=openapi.in_body(TranslationRequest),
    )(translate)
    app.get("/v2/translate", include_in_schema=False)(translate)
    for method, shown in ((app.get, True), (app.post, False)):
        method("/v2/languages", summary="DeepL: the languages", responses=answers(LANGUAGES), include_in_schema=shown)(
            languages
        )
        method("/v2/usage", summary="DeepL: characters used", responses=answers(USAGE), include_in_schema=shown)(
            show_usage
        )
    for path in ("/v2/document", "/v2/document/{document}", "/v2/document/{document}/result"):
        app.api_route(path, methods=["GET", "POST"], include_in_schema=False)(documents)


def options_of(asked: TranslationRequest, terms: Mapping[str, str]) -> TextOptions:
    """Returns what is asked for beside the languages."""
    split = str(asked.split_sentences)
    return TextOptions(
        format=asked.tag_handling or "text",
        ignore_tags=tags(asked.ignore_tags),
        splitting_tags=tags(asked.splitting_tags),
        non_splitting_tags=tags(asked.non_splitting_tags),
        outline_detection=is_on(asked.outline_detection),
        split_sentences="nonewlines" if split == "nonewlines" else "off" if split in ("0", "False") else "on",
        glossary=Glossary(terms) if terms else None,
    )


def translation_record(asked: TranslationRequest, text: str, answer: Answer) -> dict[str, Any]:
    """Returns one text's answer."""
    record: dict[str, Any] = {"detected_source_language": base_language(answer.source).upper(), "text": answer.text}
    if is_on(asked.show_billed_characters):
        record["billed_characters"] = len(text)
    if asked.model_type:  # one model serves all types
        record["model_type_used"] = asked.model_type.removeprefix("prefer_")
    return record


def language_record(code: str) -> dict[str, Any]:
    """Returns a language as DeepL lists it."""
    return {"language": code.upper(), "name": language_name(code)}


def with_variants(endpoint: Endpoint) -> Sequence[str]:
    """Returns the target languages, with the regional names under which DeepL's clients ask for some."""
    found = targets(endpoint)
    return list(dict.fromkeys(name for code in found for name in (code, *VARIANTS.get(code, ()))))
