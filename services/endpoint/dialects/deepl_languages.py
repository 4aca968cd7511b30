"""DeepL's lists of languages: /v2/languages, and /v3/languages with the features of each.

A language of the model is offered under the regional names that DeepL's clients insist on, too: EN-GB and EN-US for
English. Which of them is asked for makes no difference.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import FastAPI, Response
from starlette.exceptions import HTTPException

from dragoman.model.languages import base_language, language_name
from dragoman.services.endpoint import openapi
from dragoman.services.endpoint.answer import DEEPL
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.schemas import many
from dragoman.services.http.answers import as_json

VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT"), "zh": ("zh-Hans",)}
GLOSSARY = {"name": "glossary", "needs_source_support": True, "needs_target_support": True}
DETECTION = {"name": "auto_detection", "needs_source_support": True}
MARKUP = {"name": "tag_handling", "needs_source_support": True, "needs_target_support": True}
FEATURES: dict[str, Sequence[dict[str, Any]]] = {  # of what the models here are asked for
    "glossary": (),
    "translate_document": (DETECTION, GLOSSARY),
    "translate_text": (DETECTION, GLOSSARY, MARKUP),
}
OTHERS = ("style_rules", "translation_memory", "voice", "write")  # DeepL's, in no language here


def add_routes(app: FastAPI, documents: Documents) -> None:
    """Adds the routes, with the features of this server."""
    endpoint, missing = documents.endpoint, () if documents.endings else ("translate_document",)
    offered = {name: features for name, features in FEATURES.items() if name not in missing}

    async def languages(call: Call) -> Response:
        values = call.parameters
        kind = values.get("type") or "source"
        if kind not in ("source", "target"):
            raise HTTPException(400, "Parameter 'type' is invalid. 'source' and 'target' are valid values.")
        if kind == "source":
            return as_json([language_record(code) for code in endpoint.languages()[0]])
        targets_shown = with_variants(endpoint.languages()[1])
        return as_json([{**language_record(code), "supports_formality": False} for code in targets_shown])

    async def languages_v3(call: Call) -> Response:
        values = call.parameters
        resource = values.get("resource")
        if resource is None:
            raise HTTPException(400, "Parameter 'resource' not specified.")
        if resource not in FEATURES and resource not in OTHERS:
            choices = ", ".join(sorted((*FEATURES, *OTHERS)))
            raise HTTPException(400, f"Value for 'resource' not supported: choose from {choices}.")
        if resource not in offered:
            return as_json([])
        froms, intos = endpoint.languages()
        if resource == "glossary":
            froms, intos = list(map(base_language, froms)), list(map(base_language, intos))
        else:
            intos = with_variants(intos)
        detected = await asyncio.to_thread(endpoint.detector.known, froms)
        rows = [
            {
                "lang": code,
                "name": language_name(code),
                "status": "stable",
                "usable_as_source": code in froms,
                "usable_as_target": code in intos,
                "features": {
                    feature["name"]: {"status": "stable"}
                    for feature in offered[resource]
                    if feature is not DETECTION or code in detected
                },
            }
            for code in sorted({*froms, *intos})
        ]
        return as_json(rows)

    async def resources(_: Call) -> Response:
        return as_json([{"name": name, "features": list(features)} for name, features in offered.items()])

    v2, v3 = Routes(app, "DeepL: ", DEEPL), Routes(app, "DeepL v3: ", DEEPL)
    kinds = in_query("type", ("source", "target"))
    v2.add("GET", "/v2/languages", languages, "the languages", many(schemas.DeepLLanguage), kinds)
    app.post("/v2/languages", include_in_schema=False)(languages)
    v3.add("GET", "/v3/languages/resources", resources, "the resources", many(schemas.DeepLResource))
    named = in_query("resource", (*FEATURES, *OTHERS), required=True)
    v3.add(
        "GET",
        "/v3/languages",
        languages_v3,
        "the languages of a resource",
        many(schemas.DeepLLanguageV3),
        named,
    )


def in_query(name: str, choices: Iterable[str], required: bool = False) -> openapi.Schema:
    """Returns a request with one parameter in its query string."""
    schema = {"type": "string", "enum": list(choices)}
    return {"parameters": [{"name": name, "in": "query", "required": required, "schema": schema}]}


def language_record(code: str) -> dict[str, Any]:
    """Returns a language as version 2 lists it."""
    return {"language": code.upper(), "name": language_name(code)}


def with_variants(languages: Sequence[str]) -> list[str]:
    """Returns the languages, with the regional names under which DeepL's clients ask for some."""
    return list(dict.fromkeys(name for code in languages for name in (code, *VARIANTS.get(code, ()))))
