"""DeepL's routes of glossaries: /v2/glossaries with one dictionary each, /v3/glossaries with many.

Both show the same store; version 2 lists the glossaries that have exactly one dictionary.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Mapping
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from dragoman.model.languages import base_language
from dragoman.services.endpoint.answer import DEEPL
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.dialects.deepl_requests import WORDING
from dragoman.services.endpoint.dialects.glossary_entries import read_entries, with_list, write_tsv
from dragoman.services.endpoint.dialects.questions import is_pair, use_glossaries
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.glossaries import Dictionary, Glossary, StoredDictionary
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import Language, Parameters, Stored, Text, validate
from dragoman.services.http.answers import as_json

V2, V3 = schemas.DeepLGlossary, schemas.DeepLGlossaryV3
TSV = "text/tab-separated-values"


class PairRequest(Parameters):
    """The languages of a dictionary."""

    source_lang: Language
    target_lang: Language


class DictionaryRequest(PairRequest):
    """A dictionary's languages and entries."""

    entries: Text
    entries_format: Literal["tsv", "csv", "tbx"] = Field(title="tsv, csv or tbx")


class NamedRequest(DictionaryRequest):
    """A glossary of version 2."""

    name: Stored


class GlossaryRequest(Parameters):
    """A glossary of version 3."""

    name: Stored
    dictionaries: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=100, title="a list of dictionaries")]


class ChangeRequest(Parameters):
    """A change to a glossary of version 3."""

    name: Stored | Literal[""] = Field("", title="a string without NUL")
    dictionaries: Annotated[list[dict[str, Any]], Field(max_length=100, title="a list of dictionaries")] = Field(
        default_factory=list
    )


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes of both versions."""

    def store(call: Call, method: str, *values: Any, **more: Any) -> Awaitable[Any]:
        """Calls the store, for the glossary of the path if there is one."""
        named = [glossary_id(call)] if call.path_params else []
        return use_glossaries(endpoint, call.key, method, *named, *values, **more)

    async def dictionary(values: Mapping[str, Any]) -> Dictionary:
        request = validate(DictionaryRequest, values, WORDING)
        languages = request.source_lang, request.target_lang
        if not is_pair(endpoint, *languages):
            raise HTTPException(400, "Unsupported glossary source and target language pair")
        try:
            terms = await asyncio.to_thread(read_entries, request.entries, request.entries_format, *languages)
        except ValueError as problem:
            raise HTTPException(400, f"Invalid glossary entries provided: {problem}") from None
        source, target = map(base_language, languages)
        return Dictionary(source, target, terms)

    async def pairs(_: Call) -> Response:
        return as_json({"supported_languages": [pair_record(*pair) for pair in endpoint.pairs()]})

    async def create_v2(call: Call) -> Response:
        name = validate(NamedRequest, call.parameters, WORDING).name
        return as_json(record_v2(await store(call, "create", name, [await dictionary(call.parameters)])), 201)

    async def list_v2(call: Call) -> Response:
        records = [record_v2(glossary) for glossary in await store(call, "list") if len(glossary.dictionaries) == 1]
        return as_json({"glossaries": records})

    async def get_v2(call: Call) -> Response:
        return as_json(record_v2(await single(call)))

    async def entries_v2(call: Call) -> Response:
        (stored,) = (await single(call)).dictionaries
        return Response(write_tsv(await store(call, "terms", stored.source, stored.target)), media_type=TSV)

    async def single(call: Call) -> Glossary:
        """Returns the glossary that the path names, if it has one dictionary."""
        glossary: Glossary = await store(call, "get")
        if len(glossary.dictionaries) != 1:
            raise HTTPException(404, "Glossary not found: it has several dictionaries, which /v3/glossaries shows")
        return glossary

    async def delete(call: Call) -> Response:
        await store(call, "delete")
        return Response(status_code=204)

    async def create_v3(call: Call) -> Response:
        request = validate(GlossaryRequest, with_list(call.parameters), WORDING)
        dictionaries = [await dictionary(values) for values in request.dictionaries]
        return as_json(record_v3(await store(call, "create", request.name, dictionaries)), 201)

    async def list_v3(call: Call) -> Response:
        return as_json({"glossaries": [record_v3(glossary) for glossary in await store(call, "list")]})

    async def get_v3(call: Call) -> Response:
        return as_json(record_v3(await store(call, "get")))

    async def entries_v3(call: Call) -> Response:
        request = validate(PairRequest, call.parameters, WORDING)
        pair = request.source_lang, request.target_lang
        record = {"entries": write_tsv(await store(call, "terms", *pair)), "entries_format": "tsv"}
        return as_json({"dictionaries": [pair_record(*pair) | record]})

    async def change_v3(call: Call) -> Response:
        request = validate(ChangeRequest, with_list(call.parameters), WORDING)
        dictionaries = [await dictionary(values) for values in request.dictionaries]
        return as_json(record_v3(await store(call, "change", name=request.name, add=dictionaries)))

    async def put_v3(call: Call) -> Response:
        changed = await dictionary(call.parameters)
        glossary: Glossary = await store(call, "change", put=[changed])
        return as_json(dictionary_record(glossary.find(changed.source, changed.target)))

    async def delete_dictionary(call: Call) -> Response:
        request = validate(PairRequest, call.parameters, WORDING)
        await store(call, "delete_dictionary", request.source_lang, request.target_lang)
        return Response(status_code=204)

    v2, v3 = Routes(app, "DeepL v2: ", DEEPL), Routes(app, "DeepL v3: ", DEEPL)
    path = "/v2/glossaries"
    v2.add("GET", "/v2/glossary-language-pairs", pairs, "the pairs that glossaries may have", schemas.DeepLPairs)
    v2.add("POST", path, create_v2, "store a glossary", V2, NamedRequest)
    v2.add("GET", path, list_v2, "the glossaries", schemas.DeepLGlossaries)
    v2.add("GET", f"{path}/{{glossary}}", get_v2, "a glossary", V2)
    v2.add("GET", f"{path}/{{glossary}}/entries", entries_v2, "a glossary's entries", Any)
    v2.add("DELETE", f"{path}/{{glossary}}", delete, "delete a glossary", Any)
    path = "/v3/glossaries"
    v3.add("POST", path, create_v3, "store a glossary", V3, GlossaryRequest)
    v3.add("GET", path, list_v3, "the glossaries", schemas.DeepLGlossariesV3)
    path = f"{path}/{{glossary}}"
    v3.add("GET", path, get_v3, "a glossary", V3)
    v3.add("PATCH", path, change_v3, "rename a glossary, add entries", V3, ChangeRequest)
    v3.add("DELETE", path, delete, "delete a glossary", Any)
    v3.add("GET", f"{path}/entries", entries_v3, "a dictionary's entries", Any, PairRequest)
    v3.add("PUT", f"{path}/dictionaries", put_v3, "replace a dictionary", schemas.DeepLDictionary, DictionaryRequest)
    v3.add("DELETE", f"{path}/dictionaries", delete_dictionary, "delete a dictionary", Any, PairRequest)


def glossary_id(call: Call) -> str:
    """Returns the glossary's id in the path. Raises HTTPException: 400, it is no UUID."""
    identity: str = call.path_params["glossary"]
    try:
        return str(uuid.UUID(identity))
    except ValueError:
        raise HTTPException(400, "Value for 'glossary_id' not supported.") from None


def pair_record(source: str, target: str) -> dict[str, str]:
    """Returns the languages of a dictionary as DeepL names them."""
    return {"source_lang": base_language(source), "target_lang": base_language(target)}


def record_v2(glossary: Glossary) -> dict[str, Any]:
    """Returns a glossary as version 2 shows it."""
    (dictionary,) = glossary.dictionaries
    facts = {"glossary_id": glossary.id, "name": glossary.name, "ready": True}
    return {**facts, **dictionary_record(dictionary), "creation_time": glossary.created}


def record_v3(glossary: Glossary) -> dict[str, Any]:
    """Returns a glossary as version 3 shows it."""
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": [dictionary_record(dictionary) for dictionary in glossary.dictionaries],
        "creation_time": glossary.created,
    }


def dictionary_record(stored: StoredDictionary) -> dict[str, Any]:
    """Returns a dictionary without its terms."""
    return {"source_lang": stored.source, "target_lang": stored.target, "entry_count": stored.entries}
