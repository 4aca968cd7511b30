"""The parameters of LibreTranslate's routes, checked by pydantic, and what all dialects' parameters share.

No message repeats the input: it is "NAME must be" and the field's title. The OpenAPI document is made from the same
classes. Parameters, error messages and codes are LibreTranslate's, so that its clients work unchanged.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from pydantic_core import PydanticUseDefault
from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.model.languages import standard_code
from dragoman.services.endpoint.keys import NOBODY, Key
from dragoman.services.endpoint.translation import Question
from dragoman.services.settings import Limits
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.options import TextOptions

CODE = "^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$"  # as in BCP 47, or with underscores


def _parse_digits(value: Any) -> Any:
    if value is None or value == "":
        raise PydanticUseDefault
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value) else value


Number = Annotated[int, Field(ge=0)]
Digits = Number | Annotated[str, Field(pattern="^[0-9]{0,10}$")] | None  # as JSON, or as a form's digits
Whole = Annotated[Number, BeforeValidator(_parse_digits, json_schema_input_type=Digits)]
Text = Annotated[str, Field(min_length=1, title="a string")]
Strings = Annotated[list[str], Field(fail_fast=True)]  # a million errors would take seconds
Texts = Annotated[str | Strings, Field(min_length=1, title="a string or a list of strings")]
Language = Annotated[
    str,
    Field(pattern=CODE, max_length=35, title="a language code"),
    AfterValidator(lambda code: standard_code(code.lower())),
]
Sign = Literal[True, False, None, 1, 0, "", "true", "false", "True", "False", "1", "0"]  # JSON's, or a form's
Switch = Annotated[Sign, AfterValidator(lambda value: value in (True, "true", "True", "1"))]


class Parameters(BaseModel, strict=True):
    """The parameters of every route; unknown ones are ignored."""

    api_key: Any = Field(None, description="where the server asks for one")


Checked = TypeVar("Checked", bound=Parameters)


class Wording(NamedTuple):
    """A dialect's messages about a parameter: its `{name}`, what it must be (`{title}`)."""

    missing: str = "Invalid request: missing {name} parameter"
    wrong: str = "Invalid request: {name} must be {title}"


LIBRETRANSLATE = Wording()


class DetectionRequest(Parameters):
    """The parameters of /detect."""

    q: Text


class SuggestionRequest(Parameters):
    """The parameters of /suggest."""

    q: Text
    s: Text = Field(description="the translation of q", examples=["Der Hund sieht den Mann."])
    source: Language = Field(examples=["en"])
    target: Language = Field(examples=["de"])


class FileRequest(Parameters):
    """The parameters of /translate_file beside the file."""

    source: Language = Field(description="or auto", examples=["en"])
    target: Language = Field(examples=["de"])


class TranslationRequest(Parameters):
    """The parameters of /translate."""

    q: Texts = Field(examples=["The dog sees the man."])
    format: Literal["text", "html", "xml", "markdown", "", None] = Field(
        None, title="text, html, xml or markdown", description="of the texts; their markup is kept"
    )
    alternatives: Whole = Field(0, title="a whole number, 0 or more")
    source: Language = Field(description="or auto", examples=["en"])
    target: Language = Field(examples=["de"])
    alignment: Switch = Field(False, title="true or false", description="also what each word looked at")
    report: Switch = Field(False, title="true or false", description="also what was kept in the texts, and how")
    terms: dict[str, str] | str | None = Field(
        None,
        title="an object of strings, or lines of source, tab or =, and target",
        description="terms and their translations",
        examples=[{"dog": "Köter"}],
    )

    @property
    def batch(self) -> bool:
        """Returns True if the answer is a list."""
        return isinstance(self.q, list)

    def question(self, limits: Limits, key: Key = NOBODY) -> Question:
        """Returns what the endpoint is asked. Raises HTTPException: 400, more than the limits, or unreadable terms."""
        texts = as_list(self.q)
        check_size(texts, limits)
        if self.alternatives > limits.alternatives:
            message = f"Invalid request: alternatives parameter must be <= {limits.alternatives}"
            raise HTTPException(400, message)
        options = TextOptions(format=self.format or "text", glossary=_read_terms(self.terms) if self.terms else None)
        source = None if self.source == "auto" else self.source
        return Question(texts, source, self.target, self.alternatives, bool(self.alignment), options, key)


def validate(model: type[Checked], values: Mapping[str, Any], wording: Wording = LIBRETRANSLATE) -> Checked:
    """Returns the checked request.

    Raises HTTPException: 400 with the dialect's message, a parameter is missing or of a wrong type.
    """
    try:
        return model.model_validate(values)
    except pydantic.ValidationError as problem:
        error = problem.errors(include_url=False)[0]
    if error["type"] == "value_error":  # of a validator of ours
        raise HTTPException(400, str(error["ctx"]["error"]))
    name = str(error["loc"][0])
    message = wording.missing if values.get(name) in (None, "", []) else wording.wrong
    raise HTTPException(400, message.format(name=name, title=model.model_fields[name].title))


def as_list(value: str | list[str]) -> list[str]:
    """Returns the texts of a parameter that is one or many."""
    return value if isinstance(value, list) else [value]


def check_size(texts: Sequence[str], limits: Limits, too_large: int = 400) -> None:
    """Raises HTTPException: 400 for more texts than a request may have, `too_large` for more characters."""
    size = sum(map(len, texts))
    if len(texts) > limits.texts:
        counts = f"{len(texts):,} texts are too many; at most {limits.texts:,} are allowed"
        raise HTTPException(400, f"Invalid request: {counts}")
    if size > limits.characters:
        counts = f"{size:,} characters are too many; at most {limits.characters:,} are allowed"
        raise HTTPException(too_large, f"Invalid request: {counts}")


def _read_terms(terms: dict[str, str] | str) -> Glossary:
    """Returns the terms of an object, or of lines of source and target with a tab or an equals sign between them."""
    rows = terms.items() if isinstance(terms, dict) else map(_split, filter(str.strip, terms.split("\n")))
    try:
        return Glossary.of(rows, "terms")
    except UserError as problem:
        raise HTTPException(400, f"Invalid request: {problem}") from None


def _split(line: str) -> tuple[str, str]:
    source, _, target = line.partition("\t" if "\t" in line else "=")
    return source, target
