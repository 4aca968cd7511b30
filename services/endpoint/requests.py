"""The parameters of /translate and /detect, read from JSON, a form or the query string, and checked by pydantic.

All routes use `parameters` and `validate`. No message repeats the input: it is "NAME must be" and
the field's title. The OpenAPI document is made from the same classes.

Parameters and error messages and codes are LibreTranslate's, so that its clients work unchanged.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Self, TypeVar

import orjson
import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticUseDefault
from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dragoman.model.languages import standard_code
from dragoman.services.endpoint.keys import NOBODY, Key
from dragoman.services.endpoint.translation import Question
from dragoman.services.http.wrapper import BODY, HEADERS
from dragoman.services.settings import Limits
from dragoman.services.texts.options import TextOptions


def refuse(message: str) -> NoReturn:
    """Makes a validator refuse its input: 400, with this message."""
    raise PydanticCustomError("refused", "{message}", {"message": message})


def check_limits(limits: Limits, count: int, size: int) -> None:
    """Makes a validator refuse more texts or characters than a request may have."""
    if count > limits.texts:
        refuse(f"Invalid request: request ({count}) exceeds batch limit ({limits.texts})")
    if size > limits.characters:
        refuse(f"Invalid request: request ({size}) exceeds text limit ({limits.characters})")


def as_list(value: str | list[str]) -> list[str]:
    """Returns the texts of a parameter that is one or many."""
    return value if isinstance(value, list) else [value]


def whole_number(default: int, least: int, most: int) -> Any:
    """Returns a field: a whole number within bounds, as JSON or as a form's digits; empty is the default."""
    number = Annotated[int, Field(ge=least, le=most)]
    digits = number | Annotated[str, Field(pattern="^[0-9]{0,10}$")] | None
    read = BeforeValidator(_parse_digits, json_schema_input_type=digits)
    return Annotated[number, read, Field(title=f"a whole number, {least} or more")], default


def _parse_digits(value: Any) -> Any:
    if value is None or value == "":
        raise PydanticUseDefault
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value) else value


Text = Annotated[str, Field(min_length=1, title="a string")]
Strings = Annotated[list[str], Field(fail_fast=True)]  # a million errors would take seconds
Texts = Annotated[str | Strings, Field(title="a string or a list of strings")]
CODE = "^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$"  # as in BCP 47, or with underscores
Language = Annotated[
    str,
    Field(pattern=CODE, max_length=35, title="a language code"),
    AfterValidator(lambda code: standard_code(code.lower())),
]
Stored = Annotated[str, Field(min_length=1, pattern="^[^\x00]*$", title="a string without NUL")]  # PostgreSQL has none
Sign = Literal[True, False, None, 1, 0, "", "true", "false", "True", "False", "1", "0"]  # JSON's, or a form's
Switch = Annotated[Sign, AfterValidator(lambda value: value in (True, "true", "True", "1"))]
PLAIN = ("text", "", None)  # formats without markup


class Parameters(BaseModel, strict=True):
    """The parameters of every route; unknown ones are ignored."""

    api_key: Any = Field(None, description="where the server asks for one")


Checked = TypeVar("Checked", bound=Parameters)


class Wording(NamedTuple):
    """A dialect's messages about a parameter: its `{name}`, what it must be (`{title}`), the most that it may be."""

    missing: str = "Invalid request: missing {name} parameter"
    wrong: str = "Invalid request: {name} must be {title}"
    over: str = "Invalid request: {name} parameter must be <= {most}"


LIBRETRANSLATE = Wording()


class DetectionRequest(Parameters):
    """The parameters of /detect."""

    q: Text


class SuggestionRequest(Parameters):
    """The parameters of /suggest."""

    q: Stored
    s: Stored = Field(description="the translation of q", examples=["Der Hund sieht den Mann."])
    source: Language = Field(examples=["en"])
    target: Language = Field(examples=["de"])

    @classmethod
    def within(cls, limits: Limits) -> "type[SuggestionRequest]":
        """Returns the class with the limit on characters."""
        title = "a string within the limit, without NUL"
        text = Annotated[Stored, Field(max_length=limits.characters, title=title)]
        return pydantic.create_model(cls.__name__, __base__=cls, q=text, s=text)


class TranslationRequest(Parameters):
    """The parameters of /translate."""

    q: Texts
    format: Literal["text", "html", "xml", "markdown", "", None] = Field(
        None, title="text, html, xml or markdown", description="of the texts; their markup is kept"
    )
    alternatives: int = 0
    source: Language = Field(description="or auto", examples=["en"])
    target: Language = Field(examples=["de"])
    version: str | None = Field(None, title="a string", description="of several models of a pair, the one to ask")
    prefix: Annotated[str, StringConstraints(strip_whitespace=True)] | None = Field(
        None,
        title="a string",
        description="the translation begins with it; alternatives differ in the word that comes next",
    )
    alignment: Switch = Field(False, title="true or false", description="also what each word looked at")
    report: Switch = Field(False, title="true or false", description="also what was kept in the texts, and how")
    glossary: str | None = Field(None, title="a string", description="the id of a stored glossary")
    terms: dict[str, str] | str | None = Field(
        None,
        title="an object of strings, or lines of source, tab or =, and target",
        description="terms and their translations",
        examples=[{"dog": "Köter"}],
    )

    @pydantic.model_validator(mode="after")
    def _check_prefix(self) -> Self:
        more = (self.batch, self.alignment, self.report, self.glossary, self.terms, self.format not in PLAIN)
        if self.prefix is not None and any(more):
            refuse("Invalid request: prefix needs one text, without markup, alignment, report, glossary and terms")
        return self

    @property
    def batch(self) -> bool:
        """Returns True if the answer is a list."""
        return isinstance(self.q, list)

    def question(self, version: str | None = None, key: Key = NOBODY) -> Question:
        """Returns what the endpoint is asked; `version` asks for one of several models."""
        source = None if self.source == "auto" else self.source
        options = TextOptions(format=self.format or "text")
        version = version or self.version
        texts, aligned = as_list(self.q), bool(self.alignment)
        return Question(texts, source, self.target, self.alternatives, aligned, options, version, key, self.prefix)

    @classmethod
    def within(cls, limits: Limits) -> "type[TranslationRequest]":
        """Returns the class with limits on texts, characters and alternatives."""

        def check_size(q: str | list[str]) -> str | list[str]:
            check_limits(limits, *((len(q), sum(map(len, q))) if isinstance(q, list) else (1, len(q))))
            return q

        text = {"type": "string", "minLength": 1, "maxLength": limits.characters}
        texts = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": limits.texts}
        text_schema = WithJsonSchema({"anyOf": [text, texts], "examples": ["The dog sees the man."]})
        q = Annotated[Texts, Field(min_length=1), AfterValidator(check_size), text_schema]
        return pydantic.create_model(
            cls.__name__, __base__=cls, q=q, alternatives=whole_number(0, 0, limits.alternatives)
        )


def validate(model: type[Checked], values: Mapping[str, Any], wording: Wording = LIBRETRANSLATE) -> Checked:
    """Returns the checked request.

    Raises HTTPException: 400 with the dialect's message: a parameter is missing, of a wrong type, or over a limit.
    """
    try:
        return model.model_validate(values)
    except pydantic.ValidationError as problem:
        error = problem.errors(include_url=False)[0]
    if error["type"] == "refused":
        raise HTTPException(400, error["msg"])
    name = str(error["loc"][0])
    if values.get(name) in (None, "", []):
        raise HTTPException(400, wording.missing.format(name=name))
    if error["type"] == "less_than_equal":
        raise HTTPException(400, wording.over.format(name=name, most=error["ctx"]["le"]))
    raise HTTPException(400, wording.wrong.format(name=name, title=_title(model, name)))


def _title(model: type[BaseModel], name: str) -> str | None:
    """Returns what a parameter must be, by its name or its alias."""
    fields = model.model_fields
    field = fields.get(name) or next(field for field in fields.values() if field.alias == name)
    return field.title


async def parameters(request: Request) -> dict[str, Any]:
    """Returns body and query string as one mapping; the body wins. A repeated form field is a list.

    Raises HTTPException: 400, the body cannot be read or contains invalid text.
    """
    values = _fields(request.query_params) if request.scope["query_string"] else {}
    kind = request.scope[HEADERS].get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    try:
        if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
            content = _check_text(_fields(await request.form(max_files=0)))
        else:
            content = _parse_json(request.scope[BODY])
    except (ValueError, RecursionError):
        raise HTTPException(400, f"Invalid request: the body is not {'a form' if 'form' in kind else 'JSON'}") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "Invalid request: the body is not a JSON object")
    return values | content


def _parse_json(body: bytes) -> Any:
    """Returns what the body holds; an empty one is an empty object.

    Raises:
        ValueError, RecursionError: it is not JSON.
        HTTPException: 400, it has a lone surrogate.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:  # empty, in UTF-16, with a surrogate or a NaN, or not JSON
        return _check_text(json.loads(body) if body.strip() else {})


def _check_text(content: Any) -> Any:
    """Returns the content.

    Raises:
        HTTPException: 400, it has a lone surrogate, which is valid JSON ("\\ud800") but no text: it cannot be written.
    """
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        message = "Invalid request: the body holds a lone surrogate, which is no Unicode text"
        raise HTTPException(400, message) from None
    return content


def _fields(form: FormData | QueryParams) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in form:
        field_values = form.getlist(name)
        values[name] = field_values if len(field_values) > 1 else field_values[0]
    return values
