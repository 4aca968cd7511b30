"""Google's routes, version 2: /language/translate/v2, and below it /detect and /languages.

A POST with the header `X-HTTP-Method-Override: GET` has its parameters in a form, which any POST may have here. Texts
are HTML unless `format=text` is asked for.
"""

from typing import Annotated, Any, Literal

from fastapi import FastAPI, Response
from pydantic import Field

from dragoman.model.languages import language_name
from dragoman.services.endpoint.answer import GOOGLE
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.detection import Guess
from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.dialects.questions import ask, check_size
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import Language, Parameters, Texts, Wording, as_list, validate
from dragoman.services.http.answers import as_json
from dragoman.services.texts.options import TextOptions

WORDING = Wording(
    "Missing required parameter: {name}", "Invalid value for {name}: {title} is expected", "{name}: at most {most}"
)
PATH = "/language/translate/v2"
RELIABLE = 50.0  # percent; Google's clients are told to ignore the field
UNDETERMINED = Guess("und", 0.0)  # BCP 47's code for a text without letters


class TranslationRequest(Parameters):
    """The parameters of a translation."""

    q: Annotated[Texts, Field(min_length=1)] = Field(examples=["The dog sees the man."])
    target: Language = Field(title="a language code", examples=["de"])
    source: Language | Literal[""] = Field("", title="a language code")
    format: Literal["html", "text", ""] = Field("", title="html or text", description="html where it is not given")
    model: str = Field("", title="a string", description="taken: nmt and base are the one model that there is")


class DetectionRequest(Parameters):
    """The texts whose languages are asked for."""

    q: Annotated[Texts, Field(min_length=1)] = Field(examples=["The dog sees the man."])


class LanguagesRequest(Parameters):
    """The language in which languages are named."""

    target: Language | Literal[""] = Field("", title="a language code")


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes, with Google's parameters, answers and messages."""

    async def translate(call: Call) -> Response:
        request = validate(TranslationRequest, call.parameters, WORDING)
        texts = as_list(request.q)
        options = TextOptions(format="text" if request.format == "text" else "html")
        translations, headers = await ask(endpoint, call.key, texts, request.source or None, request.target, options)
        records = [{"translatedText": translation.text} for translation in translations]
        for record, translation in zip(records, translations, strict=True):
            if not request.source:
                record["detectedSourceLanguage"] = translation.source
            if request.model:
                record["model"] = request.model
        return as_json({"data": {"translations": records}}, headers=headers)

    async def detections(call: Call) -> Response:
        request = validate(DetectionRequest, call.parameters, WORDING)
        texts = as_list(request.q)
        check_size(texts, endpoint)
        rows = [[detection(*next(iter(await endpoint.detect(text, call.key)), UNDETERMINED))] for text in texts]
        return as_json({"data": {"detections": rows}})

    async def languages(call: Call) -> Response:
        request = validate(LanguagesRequest, call.parameters, WORDING)
        codes = sorted(set().union(*endpoint.languages()))
        named = {code: {"name": language_name(code, request.target)} if request.target else {} for code in codes}
        return as_json({"data": {"languages": [{"language": code, **name} for code, name in named.items()]}})

    routes = Routes(app, "Google: ", GOOGLE)
    for path, schema, function, kind, about in (
        (PATH, TranslationRequest, translate, schemas.GoogleTranslated, "translate texts"),
        (f"{PATH}/detect", DetectionRequest, detections, schemas.GoogleDetected, "detect the language of texts"),
        (f"{PATH}/languages", LanguagesRequest, languages, schemas.GoogleListed, "the languages"),
    ):
        routes.add("GET POST", path, function, about, kind, schema, origin=function is translate)


def detection(code: str, percent: float) -> dict[str, Any]:
    """Returns a detected language as version 2 has it."""
    return {"language": code, "isReliable": percent >= RELIABLE, "confidence": round(percent / 100, 4)}
