"""The answers of all routes, from which FastAPI makes the OpenAPI document; those of dialects have their names."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

Count = Annotated[int, Field(ge=0)]
Record = dict[str, Any]

# LibreTranslate's and our own


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


# DeepL's


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


class DeepLDocument(TypedDict):
    document_id: str
    document_key: str


class DeepLDocumentStatus(TypedDict):
    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: NotRequired[Count]
    billed_characters: NotRequired[Count]
    error_message: NotRequired[str]
    message: NotRequired[str]
    notes: NotRequired[list[str]]


class DeepLLanguage(TypedDict):
    language: str
    name: str
    supports_formality: NotRequired[bool]


class DeepLLanguageV3(TypedDict):
    lang: str
    name: str
    status: str
    usable_as_source: bool
    usable_as_target: bool
    features: Record


class DeepLFeature(TypedDict):
    name: str
    needs_source_support: NotRequired[bool]
    needs_target_support: NotRequired[bool]


class DeepLResource(TypedDict):
    name: str
    features: list[DeepLFeature]


class DeepLPair(TypedDict):
    source_lang: str
    target_lang: str


class DeepLPairs(TypedDict):
    supported_languages: list[DeepLPair]


class DeepLDictionary(DeepLPair):
    entry_count: Count


class DeepLGlossary(DeepLDictionary):
    glossary_id: str
    name: str
    ready: bool
    creation_time: str


class DeepLGlossaries(TypedDict):
    glossaries: list[DeepLGlossary]


class DeepLGlossaryV3(TypedDict):
    glossary_id: str
    name: str
    dictionaries: list[DeepLDictionary]
    creation_time: str


class DeepLGlossariesV3(TypedDict):
    glossaries: list[DeepLGlossaryV3]


# Google's


class GoogleTranslation(TypedDict):
    translatedText: str
    detectedSourceLanguage: NotRequired[str]
    model: NotRequired[str]


class GoogleTranslations(TypedDict):
    translations: list[GoogleTranslation]


class GoogleTranslated(TypedDict):
    data: GoogleTranslations


class GoogleDetection(TypedDict):
    language: str
    isReliable: bool
    confidence: float


class GoogleDetections(TypedDict):
    detections: list[list[GoogleDetection]]


class GoogleDetected(TypedDict):
    data: GoogleDetections


class GoogleLanguage(TypedDict):
    language: str
    name: NotRequired[str]


class GoogleLanguages(TypedDict):
    languages: list[GoogleLanguage]


class GoogleListed(TypedDict):
    data: GoogleLanguages


class GoogleV3Translation(TypedDict):
    translatedText: str
    model: NotRequired[str]
    detectedLanguageCode: NotRequired[str]
    glossaryConfig: NotRequired[Record]


class GoogleV3Translations(TypedDict):
    translations: list[GoogleV3Translation]
    glossaryTranslations: NotRequired[list[GoogleV3Translation]]


class GoogleV3Detection(TypedDict):
    languageCode: str
    confidence: float


class GoogleV3Detections(TypedDict):
    languages: list[GoogleV3Detection]


class GoogleV3Language(TypedDict):
    languageCode: str
    displayName: NotRequired[str]
    supportSource: bool
    supportTarget: bool


class GoogleV3Languages(TypedDict):
    languages: list[GoogleV3Language]


# OpenAI's and MLflow's


class OpenAIModel(TypedDict):
    id: str
    object: str
    created: Count
    owned_by: str


class OpenAIModels(TypedDict):
    object: str
    data: list[OpenAIModel]


class OpenAIUsage(TypedDict):
    prompt_tokens: Count
    completion_tokens: NotRequired[Count]
    total_tokens: Count


class OpenAIEmbedding(TypedDict):
    object: str
    index: Count
    embedding: Any


class OpenAIEmbeddings(TypedDict):
    object: str
    data: list[OpenAIEmbedding]
    model: str
    usage: OpenAIUsage


class OpenAIMessage(TypedDict):
    role: str
    content: str
    refusal: str | None


class OpenAIChoice(TypedDict):
    index: Count
    message: OpenAIMessage
    logprobs: Any
    finish_reason: str


class OpenAICompletion(TypedDict):
    id: str
    created: Count
    model: str
    object: str
    choices: list[OpenAIChoice]
    usage: OpenAIUsage


class Predictions(TypedDict):
    predictions: list[str]


# Errors


class DeepLError(TypedDict):
    message: str


class GoogleReason(TypedDict):
    message: str
    domain: str
    reason: str


class GoogleDetails(TypedDict):
    code: int
    message: str
    status: str
    errors: list[GoogleReason]


class GoogleError(TypedDict):
    error: GoogleDetails


class OpenAIDetails(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(TypedDict):
    error: OpenAIDetails


class MlflowError(TypedDict):
    error_code: str
    message: str
