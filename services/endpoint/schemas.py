"""The answers of LibreTranslate's routes and of our own, from which FastAPI makes the OpenAPI document."""

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

Count = Annotated[int, Field(ge=0)]
Record = dict[str, Any]
Strings = list[str]


def shape(name: str, /, **fields: Any) -> Any:
    """Returns the type of a JSON object with these fields, which has the name in the document."""
    make: Any = TypedDict  # a checker takes literal names only
    return make(name, fields)


def many(kind: Any) -> Any:
    """Returns the type of a list."""
    return list[kind]


def one_or_many(kind: Any) -> Any:
    """Returns the type of what is a list if the request's texts are one."""
    return kind | list[kind]


def maybe(kind: Any) -> Any:
    """Returns the type of a field that may be missing."""
    return NotRequired[kind]


LOST = dict.fromkeys(("truncated", "unknown", "loops", "loops_broken", "copied", "wrong_language"), maybe(Count))
STATE = {"status": str, "model": Record | None, "reload_error": str | None, "queued": Count}
WORD = {"word": str, "rank": Count, "count": Count, "width": Count}

Detected = shape("Detected", confidence=float, language=str)
Alignment = shape(
    "Alignment",
    source_tokens=Strings,
    target_tokens=Strings,
    alignment=list[tuple[Count, Count]],
    weights=list[list[float]],
    head=str,
    reading=str,
)
Losses = shape("Losses", **LOST, missing=maybe(Strings), language=maybe(str), warnings=maybe(Strings))
Match = shape("Match", text=str, translation=str, score=float, origin=str)
Kept = shape("Kept", text=str, source=maybe(str), kind=maybe(str), how=str, start=Count, end=Count)
Report = shape(
    "Report",
    complete=bool,
    sentences=Count,
    **dict.fromkeys(("placeholders", "tags", "terms", "words"), maybe(many(Kept))),
    **dict.fromkeys(("lost", "long", "cut", "loops", "untranslated"), maybe(Strings)),
)
Translation = shape(  # each field is a list if `q` is one
    "Translation",
    translatedText=one_or_many(str),
    detectedLanguage=maybe(one_or_many(Detected)),
    alternatives=maybe(one_or_many(Strings)),
    losses=maybe(one_or_many(Losses)),
    via=maybe(one_or_many(str)),
    memory=maybe(Match | many(Match | None) | None),
    alignment=maybe(one_or_many(many(Alignment))),
    report=maybe(one_or_many(Report)),
)
Suggested = shape("Suggested", success=bool)
Language = shape("Language", code=str, name=str, targets=Strings)
NamedLanguage = shape("NamedLanguage", code=str, name=str)
Pair = shape("Pair", source=NamedLanguage, target=NamedLanguage)
Settings = shape(
    "Settings",
    apiKeys=bool,
    charLimit=Count,
    filesTranslation=bool,
    frontendTimeout=Count,
    keyRequired=bool,
    language=Pair,
    suggestions=bool,
    supportedFilesFormat=Strings,
)
TranslatedFile = shape("TranslatedFile", translatedFileUrl=str, notes=maybe(Strings))
Health = shape("Health", status=str)
State = shape("State", **STATE)
Model = shape(
    "Model",
    reference=str,
    **dict.fromkeys(("source", "target", "name", "version", "run_id", "manifest_hash", "error"), str | None),
    **dict.fromkeys(("bytes", "requests"), Count),
    weight=float,
    loaded=bool,
)
Status = shape(
    "Status",
    **STATE,
    models=many(Model),
    translation=str,
    **dict.fromkeys(("vectors", "encoder", "labels", "guesser"), State | None),
    dragoman=str,
)
Class = shape("Class", label=str, score=float)
Tag = shape("Tag", entity=str, score=float, index=Count, word=str, start=Count, end=Count)
Prediction = shape("Prediction", piece=str, probability=float)
Step = shape("Step", text=str, tokens=many(Prediction))
Guesses = shape("Guesses", text=str, steps=many(Step))
DenseVector = shape("DenseVector", **WORD, vector=list[float])
SparseVector = shape("SparseVector", **WORD, indices=list[Count], values=list[float])
Neighbour = shape("Neighbour", word=str, similarity=float)
Neighbours = shape("Neighbours", word=maybe(str), neighbours=many(Neighbour))
Scored = shape("Scored", word=str, score=float)
Analogy = shape("Analogy", a=str, b=str, c=str, method=str, answers=many(Scored))
