"""The answers of the other dialects' routes, and their errors; each has its dialect's name in the OpenAPI document."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from dragoman.services.endpoint.schemas import Count, Record

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
