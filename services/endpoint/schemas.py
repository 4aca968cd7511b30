"""The answers of all routes, from which the OpenAPI document is made."""

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

Count = Annotated[int, Field(ge=0)]
Record = dict[str, Any]


class Error(TypedDict):
    error: str


class Detected(TypedDict):
    confidence: float
    language: str


class Sentence(TypedDict):
    """The attention of the words of a sentence."""

    source_tokens: list[str]
    target_tokens: list[str]
    alignment: list[tuple[Count, Count]]
    weights: list[list[float]]
    head: str
    reading: str


class Translation(TypedDict):
    """Each field is a list if `q` is one."""

    translatedText: str | list[str]
    detectedLanguage: NotRequired[Detected | list[Detected]]
    alternatives: NotRequired[list[str] | list[list[str]]]
    losses: NotRequired[Record | list[Record]]
    via: NotRequired[str | list[str]]
    alignment: NotRequired[list[Sentence] | list[list[Sentence]]]
    report: NotRequired[Record | list[Record]]


class Success(TypedDict):
    success: bool


class Language(TypedDict):
    code: str
    name: str
    targets: list[str]


class Settings(TypedDict):
    apiKeys: bool
    charLimit: Count
    filesTranslation: bool
    frontendTimeout: Count
    keyRequired: bool
    language: Record
    suggestions: bool
    supportedFilesFormat: list[str]


class TranslatedFile(TypedDict):
    translatedFileUrl: str
    notes: NotRequired[list[str]]


class Health(TypedDict):
    status: str


class Model(TypedDict):
    reference: str
    source: str | None
    target: str | None
    name: str | None
    version: str | None
    run_id: str | None
    manifest_hash: str | None
    bytes: Count
    requests: Count
    error: str | None


class Status(TypedDict):
    status: str
    model: Record | None
    reload_error: str | None
    queued: Count
    models: list[Model]
    dragoman: str


class DeepLTranslation(TypedDict):
    detected_source_language: str
    text: str
    billed_characters: NotRequired[Count]
    model_type_used: NotRequired[str]


class DeepLTranslations(TypedDict):
    translations: list[DeepLTranslation]


class DeepLUsage(TypedDict):
    character_count: Count
    character_limit: Count


class DeepLLanguage(TypedDict):
    language: str
    name: str
    supports_formality: NotRequired[bool]


class DeepLError(TypedDict):
    message: str


class Predictions(TypedDict):
    predictions: list[str]


class MlflowError(TypedDict):
    error_code: str
    message: str


ANSWERS: dict[str, Any] = {
    **{answer.__name__: answer for answer in (Translation, Success, Settings, TranslatedFile, Health, Status)},
    **{answer.__name__: answer for answer in (DeepLTranslations, DeepLUsage, Predictions)},
    **{error.__name__: error for error in (Error, DeepLError, MlflowError)},
    "Detections": list[Detected],
    "Languages": list[Language],
    "Models": list[Model],
    "DeepLLanguages": list[DeepLLanguage],
}
