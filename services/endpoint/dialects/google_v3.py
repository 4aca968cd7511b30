"""Google's routes, version 3 over REST: translateText, detectLanguage and supportedLanguages of a project.

The project and the location are Google's business: any are taken. A glossary is one of those that are stored here, by
the last part of its name.
"""

from typing import Annotated, Any, Literal

from fastapi import FastAPI, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from dragoman.model.languages import language_name
from dragoman.services.endpoint.answer import GOOGLE
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.dialects.google import WORDING
from dragoman.services.endpoint.dialects.questions import ask, check_size, glossary_of
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import Language, Parameters, Strings, Text, validate
from dragoman.services.http.answers import as_json
from dragoman.services.texts.options import TextOptions

PLACES = ("/v3/projects/{project}", "/v3/projects/{project}/locations/{location}")
REFUSED = {
    "transliterationConfig": "Transliteration is not supported",
    "adaptiveMtDataset": "Datasets are not supported",
}
MimeType = Literal["text/html", "text/plain", ""]


class TranslationRequest(Parameters):
    """The parameters of translateText."""

    contents: Annotated[Strings, Field(min_length=1, title="a list of strings")] = Field(examples=[["A dog."]])
    targetLanguageCode: Language = Field(title="a language code", examples=["de"])  # noqa: N815  # Google's names
    sourceLanguageCode: Language | Literal[""] = Field("", title="a language code")  # noqa: N815
    mimeType: MimeType = Field("", title="text/html or text/plain")  # noqa: N815
    model: str = Field("", title="a string")
    glossaryConfig: dict[str, Any] = Field(default_factory=dict, title="an object with a glossary's name")  # noqa: N815


class DetectionRequest(Parameters):
    """The parameters of detectLanguage."""

    content: Text = Field(examples=["The dog sees the man."])
    mimeType: MimeType = Field("", title="text/html or text/plain")  # noqa: N815


class LanguagesRequest(Parameters):
    """The parameters of supportedLanguages."""

    displayLanguageCode: Language | Literal[""] = Field("", title="a language code")  # noqa: N815


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes, with Google's parameters, answers and messages."""

    async def translate(call: Call) -> Response:
        values = call.parameters
        for name, message in REFUSED.items():
            if values.get(name):
                raise HTTPException(400, message)
        request = validate(TranslationRequest, values, WORDING)
        source, target = request.sourceLanguageCode or None, request.targetLanguageCode
        plain = TextOptions(format="text" if request.mimeType == "text/plain" else "html")

        async def records(options: TextOptions) -> tuple[list[dict[str, Any]], dict[str, str]]:
            translations, headers = await ask(endpoint, call.key, request.contents, source, target, options)
            detected = [{} if source else {"detectedLanguageCode": translation.source} for translation in translations]
            model = {"model": request.model} if request.model else {}
            return [
                {"translatedText": o.text, **model, **d} for o, d in zip(translations, detected, strict=True)
            ], headers

        answer, headers = await records(plain)
        body: dict[str, Any] = {"translations": answer}
        if request.glossaryConfig:
            if source is None:
                raise HTTPException(400, "sourceLanguageCode is required where a glossary is named")
            name = str(request.glossaryConfig.get("glossary", "")).rpartition("/")[2]
            glossary = await glossary_of(endpoint, call.key, [name], source, target)
            config = {"glossaryConfig": request.glossaryConfig}
            with_terms, _ = await records(TextOptions(format=plain.format, glossary=glossary))
            body["glossaryTranslations"] = [{**term, **config} for term in with_terms]
        return as_json(body, headers=headers)

    async def detections(call: Call) -> Response:
        request = validate(DetectionRequest, call.parameters, WORDING)
        check_size([request.content], endpoint)
        guesses = await endpoint.detect(request.content, call.key)
        return as_json(
            {"languages": [{"languageCode": code, "confidence": round(percent / 100, 4)} for code, percent in guesses]}
        )

    async def languages(call: Call) -> Response:
        display = validate(LanguagesRequest, call.parameters, WORDING).displayLanguageCode
        froms, intos = endpoint.languages()
        rows = [
            {
                "languageCode": code,
                **({"displayName": language_name(code, display)} if display else {}),
                "supportSource": code in froms,
                "supportTarget": code in intos,
            }
            for code in sorted({*froms, *intos})
        ]
        return as_json({"languages": rows})

    routes = Routes(app, "Google v3: ", GOOGLE)
    for place in PLACES:
        for method, end, function, about, kind, schema in (
            ("POST", ":translateText", translate, "translate texts", schemas.GoogleV3Translations, TranslationRequest),
            ("POST", ":detectLanguage", detections, "detect a language", schemas.GoogleV3Detections, DetectionRequest),
            ("GET", "/supportedLanguages", languages, "the languages", schemas.GoogleV3Languages, LanguagesRequest),
        ):
            routes.add(method, f"{place}{end}", function, about, kind, schema, origin=function is translate)
