"""DeepL's routes of texts: /v2/translate and /v2/usage."""

import dataclasses
from functools import partial
from typing import Any

from fastapi import FastAPI, Response
from starlette.exceptions import HTTPException

from dragoman.model.languages import base_language
from dragoman.services.endpoint.answer import DEEPL
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.dialects.deepl_requests import NAMES, WORDING, TranslationRequest, tags
from dragoman.services.endpoint.dialects.questions import ask, glossary_of, usage
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import as_list, validate
from dragoman.services.endpoint.route_translator import MarkupError
from dragoman.services.endpoint.translation import Answer
from dragoman.services.http.answers import as_json
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.options import SplitSentences, TextOptions

UNLIMITED = 1_000_000_000_000  # DeepL's number for accounts without a limit
SPLITS: dict[str, SplitSentences] = {
    **dict.fromkeys(("1", "True"), "newlines"),
    **dict.fromkeys(("0", "False"), "off"),
    "nonewlines": "nonewlines",
}
ELSEWHERE = {  # routes of DeepL's other products
    "/v2/write/": "models that improve texts",
    "/v3/style_rules": "style rules",
    "/v3/translation_memories": "translation memories of DeepL's kind",
    "/v3/voice": "models of speech",
}


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes, with DeepL's parameters, answers and messages."""

    async def translate(call: Call) -> Response:
        request = validate(TranslationRequest, call.parameters, WORDING)
        texts = as_list(request.text)
        languages = request.source_lang, request.target_lang
        question = partial(
            ask, endpoint, call.key, texts, *languages, too_large=413, names=NAMES, message=WORDING.wrong
        )
        options = options_of(request, await glossary_of(endpoint, call.key, request.glossaries, *languages))
        try:
            translations, headers = await question(options)
        except MarkupError:
            if options.format != "xml" or request.tag_handling_version == "v2":
                raise
            html = dataclasses.replace(options, format="html")  # version 1 takes what is nearly XML
            translations, headers = await question(html)
        records = [translation_record(request, *pair) for pair in zip(texts, translations, strict=True)]
        return as_json({"translations": records}, headers=headers | request.ignored())

    async def show_usage(call: Call) -> Response:
        used, limit = usage(endpoint, call.key)
        return as_json({"character_count": used, "character_limit": UNLIMITED if limit is None else limit})

    routes, kind = Routes(app, "DeepL: ", DEEPL), schemas.DeepLTranslations
    routes.add("POST", "/v2/translate", translate, "translate texts", kind, TranslationRequest, origin=True)
    app.get("/v2/translate", include_in_schema=False)(translate)
    routes.add("GET", "/v2/usage", show_usage, "characters used", schemas.DeepLUsage)
    app.post("/v2/usage", include_in_schema=False)(show_usage)

    async def refuse(call: Call) -> Response:
        what = next(what for path, what in ELSEWHERE.items() if call.url.path.startswith(path))
        raise HTTPException(404, f"This server has no {what}.")

    for path in ELSEWHERE:
        methods = ["GET", "POST", "PATCH", "PUT", "DELETE"]
        app.api_route(f"{path}{{rest:path}}", methods=methods, include_in_schema=False)(refuse)


def options_of(request: TranslationRequest, glossary: Glossary | None) -> TextOptions:
    """Returns what is asked for beside the languages."""
    return TextOptions(
        format=request.tag_handling or "text",
        ignore_tags=tags(request.ignore_tags),
        splitting_tags=tags(request.splitting_tags),
        non_splitting_tags=tags(request.non_splitting_tags),
        outline_detection=bool(request.outline_detection),
        split_sentences=SPLITS[str(request.split_sentences)],
        glossary=glossary,
    )


def translation_record(request: TranslationRequest, text: str, answer: Answer) -> dict[str, Any]:
    record: dict[str, Any] = {"detected_source_language": base_language(answer.source).upper(), "text": answer.text}
    if request.show_billed_characters:
        record["billed_characters"] = len(text)
    if request.model_type:  # one model serves all types
        record["model_type_used"] = request.model_type.removeprefix("prefer_")
    return record
