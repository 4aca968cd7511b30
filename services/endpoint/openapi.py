"""The OpenAPI document of each route: its parameters and all its answers.

The parameters come from the classes that check them (requests.py, vector_requests.py); a test sends the endpoint
everything that they allow and forbid.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.services.endpoint.answer import NO_KEY, OVER_QUOTA, openai
from dragoman.services.endpoint.requests import Parameters
from dragoman.services.http.answers import Form, error

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
OR_NULL: Schema = {"type": ["string", "null"]}
ERRORS = {
    400: "a parameter is missing, not supported, of a wrong type or over a limit",
    403: "no API key, or a wrong one",
    404: "an unknown word, with similar known ones; or no model here answers such questions",
    408: "the request's body did not come in time",
    413: "the request's body is too large",
    429: "too many requests wait: try again after Retry-After seconds",
    456: "the key's characters are used up",
    500: "a line cannot be translated, or an internal error",
    503: "no model is loaded yet, or no answer in time",
}
ORIGIN = {
    "X-Model-Name": "the registered model, or the run of a bundle",
    "X-Model-Version": "its version, or the first digits of the bundle's hash",
    "X-Run-Id": "the MLflow run that made it",
    "X-Manifest-Hash": "the shards that it was trained on",
    "X-Dragoman-Via": "the language in the middle, if two models translated one after the other",
}


def record(fields: Mapping[str, Schema], optional: Iterable[str] = (), **more: Any) -> Schema:
    """Returns the schema of an object with these fields."""
    required = [name for name in fields if name not in set(optional)]
    return {"type": "object", "properties": dict(fields), "required": required, **more}


def array_of(schema: Schema, **bounds: int) -> Schema:
    return {"type": "array", "items": schema, **bounds}


def one_or_list(schema: Schema) -> Schema:
    """Returns the schema of one answer, or of a list of answers for a list of texts."""
    return {"anyOf": [schema, array_of(schema)]}


DETECTED = record({"confidence": NUMBER, "language": TEXT})
ALIGNMENT = record(
    {
        "source_tokens": array_of(TEXT),
        "target_tokens": array_of(TEXT),
        "alignment": array_of(array_of(COUNT, minItems=2, maxItems=2)),
        "weights": array_of(array_of(NUMBER)),
        "head": TEXT,
        "reading": TEXT,
    }
)
LOSSES = record(
    {
        "truncated": COUNT,
        "unknown": COUNT,
        "missing": array_of(TEXT),
        "loops": COUNT,
        "loops_broken": COUNT,
        "copied": COUNT,
        "wrong_language": COUNT,
        "language": TEXT,
        "warnings": array_of(TEXT),
    },
    optional=(
        *("truncated", "unknown", "missing", "loops", "loops_broken", "copied", "wrong_language", "language"),
        "warnings",
    ),
)
MATCH = record({"text": TEXT, "translation": TEXT, "score": NUMBER, "origin": TEXT})
KEPT = array_of(
    record(
        {"text": TEXT, "source": TEXT, "kind": TEXT, "how": TEXT, "start": COUNT, "end": COUNT},
        optional=("kind", "source"),
    )
)
REPORT = record(
    {
        "complete": {"type": "boolean"},
        "sentences": COUNT,
        **dict.fromkeys(("placeholders", "tags", "terms", "words"), KEPT),
        **dict.fromkeys(("lost", "long", "cut", "loops", "untranslated"), array_of(TEXT)),
    },
    optional=("placeholders", "tags", "terms", "words", "lost", "long", "cut", "loops", "untranslated"),
)
TRANSLATION = record(
    {
        "translatedText": one_or_list(TEXT),
        "detectedLanguage": one_or_list(DETECTED),
        "alternatives": {"anyOf": [array_of(TEXT), array_of(array_of(TEXT))]},
        "losses": one_or_list(LOSSES),
        "via": one_or_list(TEXT),
        "memory": one_or_list({"anyOf": [MATCH, {"type": "null"}]}),
        "alignment": {"anyOf": [array_of(ALIGNMENT), array_of(array_of(ALIGNMENT))]},
        "report": one_or_list(REPORT),
    },
    optional=("detectedLanguage", "alternatives", "losses", "via", "memory", "alignment", "report"),
)
SUGGESTED = record({"success": {"type": "boolean"}})
LANGUAGES = array_of(record({"code": TEXT, "name": TEXT, "targets": array_of(TEXT)}))
SETTINGS = record(
    {
        "apiKeys": {"type": "boolean"},
        "charLimit": COUNT,
        "filesTranslation": {"type": "boolean"},
        "frontendTimeout": COUNT,
        "keyRequired": {"type": "boolean"},
        "language": record({side: record({"code": TEXT, "name": TEXT}) for side in ("source", "target")}),
        "suggestions": {"type": "boolean"},
        "supportedFilesFormat": array_of(TEXT),
    }
)
STATE = {"status": TEXT, "model": {"type": ["object", "null"]}, "reload_error": OR_NULL, "queued": COUNT}
HEALTH = record({"status": TEXT})
MODEL = record(
    {
        "reference": TEXT,
        **dict.fromkeys(("source", "target", "name", "version", "run_id", "manifest_hash"), OR_NULL),
        "weight": NUMBER,
        "loaded": {"type": "boolean"},
        "bytes": COUNT,
        "requests": COUNT,
        "error": OR_NULL,
    }
)
STATUS = record(
    {
        **STATE,
        "models": array_of(MODEL),
        "translation": TEXT,
        **{kind: {"anyOf": [record(STATE), {"type": "null"}]} for kind in ("vectors", "encoder", "labels", "guesser")},
        "dragoman": TEXT,
    }
)
CLASSES = array_of(record({"label": TEXT, "score": NUMBER}))
TAGS = array_of(record({"entity": TEXT, "score": NUMBER, "index": COUNT, "word": TEXT, "start": COUNT, "end": COUNT}))
GUESSES = record(
    {
        "text": TEXT,
        "steps": array_of(
            record({"text": TEXT, "tokens": array_of(record({"piece": TEXT, "probability": NUMBER}))}),
        ),
    }
)
VECTOR = record(
    {
        "word": TEXT,
        "rank": COUNT,
        "count": COUNT,
        "width": COUNT,
        "vector": array_of(NUMBER),
        "indices": array_of(COUNT),
        "values": array_of(NUMBER),
    },
    optional=("vector", "indices", "values"),
    oneOf=[{"required": ["vector"]}, {"required": ["indices", "values"]}],
)
NEIGHBOURS = record(
    {"word": TEXT, "neighbours": array_of(record({"word": TEXT, "similarity": NUMBER}))}, optional=("word",)
)
ANALOGY = record(
    {"a": TEXT, "b": TEXT, "c": TEXT, "method": TEXT, "answers": array_of(record({"word": TEXT, "score": NUMBER}))}
)


def in_body(asked: type[Parameters]) -> Schema:
    """Returns a request with these parameters in its body; the query string may hold them too, without a body."""
    schema = asked.model_json_schema()
    kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def in_query(asked: type[Parameters]) -> Schema:
    """Returns a request with these parameters in the query string; lists of numbers need a body, so it needs a word."""
    schema = asked.model_json_schema()
    needed = schema.get("required", ["word"])
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in needed, "schema": field}
            for name, field in schema["properties"].items()
            if name != "vector"
        ]
    }


def in_path(path: str, asked: Schema) -> Schema:
    """Returns the request with the parameters that stand in the path, each a text."""
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)", path)
    ]
    return {**asked, "parameters": [*named, *asked.get("parameters", ())]}


def vector_request() -> Schema:
    """Returns the path and the query string of /vectors/{word}."""
    word = {"name": "word", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {"parameters": [word, {"name": "api_key", "in": "query", "schema": {}}]}


def answers(schema: Schema, *refused: int, origin: bool = False, form: Form = error) -> dict[int | str, Schema]:
    """Returns a route's answers: 200 with `schema` (with `origin`, also its model's headers) and these errors, whose
    bodies have the dialect's form."""
    error = _content(_schema_of(form(400, "")))
    headers = {name: {"description": about, "schema": TEXT} for name, about in ORIGIN.items()} if origin else {}
    found: dict[int | str, Schema] = {200: {"description": "the answer", "headers": headers, **_content(schema)}}
    if form is openai:
        found[NO_KEY] = {"description": ERRORS[403], **error}
    return found | {
        code: {"description": ERRORS[code], **error}
        for code in refused or (code for code in ERRORS if code != OVER_QUOTA)
    }


def state_answers(schema: Schema) -> dict[int | str, Schema]:
    """Returns the answers of a route with the same body for 200 and 503."""
    return {200: {"description": "all is well", **_content(schema)}, 503: {"description": "not so", **_content(schema)}}


def _schema_of(example: Any) -> Schema:
    """Returns the schema of values like this one; null stands for anything."""
    if isinstance(example, dict):
        return record({name: _schema_of(value) for name, value in example.items()})
    if isinstance(example, list):
        return array_of(_schema_of(example[0]))
    return {} if example is None else {"type": "integer" if isinstance(example, int) else "string"}


def _content(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}
