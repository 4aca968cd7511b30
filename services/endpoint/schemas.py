"""The answers of LibreTranslate's routes and of our own, from which FastAPI makes the OpenAPI document."""

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

Count = Annotated[int, Field(ge=0)]
Record = dict[str, Any]


class Detected(TypedDict):
    confidence: float
    language: str


class Alignment(TypedDict):
    source_tokens: list[str]
    target_tokens: list[str]
    alignment: list[tuple[Count, Count]]
    weights: list[list[float]]
    head: str
    reading: str


class Losses(TypedDict, total=False):
    truncated: Count
    unknown: Count
    missing: list[str]
    loops: Count
    loops_broken: Count
    copied: Count
    wrong_language: Count
    language: str
    warnings: list[str]


class Match(TypedDict):
    text: str
    translation: str
    score: float
    origin: str


class Kept(TypedDict):
    text: str
    source: NotRequired[str]
    kind: NotRequired[str]
    how: str
    start: Count
    end: Count


class Report(TypedDict):
    complete: bool
    sentences: Count
    placeholders: NotRequired[list[Kept]]
    tags: NotRequired[list[Kept]]
    terms: NotRequired[list[Kept]]
    words: NotRequired[list[Kept]]
    lost: NotRequired[list[str]]
    long: NotRequired[list[str]]
    cut: NotRequired[list[str]]
    loops: NotRequired[list[str]]
    untranslated: NotRequired[list[str]]


class Translation(TypedDict):
    """Each field is a list if `q` is one."""

    translatedText: str | list[str]
    detectedLanguage: NotRequired[Detected | list[Detected]]
    alternatives: NotRequired[list[str] | list[list[str]]]
    losses: NotRequired[Losses | list[Losses]]
    via: NotRequired[str | list[str]]
    memory: NotRequired[Match | list[Match | None] | None]
    alignment: NotRequired[list[Alignment] | list[list[Alignment]]]
    report: NotRequired[Report | list[Report]]


class Suggested(TypedDict):
    success: bool


class Language(TypedDict):
    code: str
    name: str
    targets: list[str]


class NamedLanguage(TypedDict):
    code: str
    name: str


class Pair(TypedDict):
    source: NamedLanguage
    target: NamedLanguage


class Settings(TypedDict):
    apiKeys: bool
    charLimit: Count
    filesTranslation: bool
    frontendTimeout: Count
    keyRequired: bool
    language: Pair
    suggestions: bool
    supportedFilesFormat: list[str]


class TranslatedFile(TypedDict):
    translatedFileUrl: str
    notes: NotRequired[list[str]]


class Health(TypedDict):
    status: str


class State(TypedDict):
    status: str
    model: Record | None
    reload_error: str | None
    queued: Count


class Model(TypedDict):
    reference: str
    source: str | None
    target: str | None
    name: str | None
    version: str | None
    run_id: str | None
    manifest_hash: str | None
    weight: float
    loaded: bool
    bytes: Count
    requests: Count
    error: str | None


class Status(State):
    models: list[Model]
    translation: str
    vectors: State | None
    encoder: State | None
    labels: State | None
    guesser: State | None
    dragoman: str


class Class(TypedDict):
    label: str
    score: float


class Tag(TypedDict):
    entity: str
    score: float
    index: Count
    word: str
    start: Count
    end: Count


class Prediction(TypedDict):
    piece: str
    probability: float


class Step(TypedDict):
    text: str
    tokens: list[Prediction]


class Guesses(TypedDict):
    text: str
    steps: list[Step]


class DenseVector(TypedDict):
    word: str
    rank: Count
    count: Count
    width: Count
    vector: list[float]


class SparseVector(TypedDict):
    word: str
    rank: Count
    count: Count
    width: Count
    indices: list[Count]
    values: list[float]


class Neighbour(TypedDict):
    word: str
    similarity: float


class Neighbours(TypedDict):
    word: NotRequired[str]
    neighbours: list[Neighbour]


class Scored(TypedDict):
    word: str
    score: float


class Analogy(TypedDict):
    a: str
    b: str
    c: str
    method: str
    answers: list[Scored]
