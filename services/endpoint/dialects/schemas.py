"""The answers of the other dialects' routes, and their errors; each has its dialect's name in the OpenAPI document."""

from typing import Any, Literal

from dragoman.services.endpoint.schemas import Count, Record, Strings, many, maybe, shape

PAIR = {"source_lang": str, "target_lang": str}
DICTIONARY = {**PAIR, "entry_count": Count}
GLOSSARY = {"glossary_id": str, "name": str, "creation_time": str}

DeepLTranslation = shape(
    "DeepLTranslation",
    detected_source_language=str,
    text=str,
    billed_characters=maybe(Count),
    model_type_used=maybe(str),
)
DeepLTranslations = shape("DeepLTranslations", translations=many(DeepLTranslation))
DeepLUsage = shape("DeepLUsage", character_count=Count, character_limit=Count)
DeepLDocument = shape("DeepLDocument", document_id=str, document_key=str)
DeepLDocumentStatus = shape(
    "DeepLDocumentStatus",
    document_id=str,
    status=Literal["queued", "translating", "done", "error"],
    seconds_remaining=maybe(Count),
    billed_characters=maybe(Count),
    error_message=maybe(str),
    message=maybe(str),
    notes=maybe(Strings),
)
DeepLLanguage = shape("DeepLLanguage", language=str, name=str, supports_formality=maybe(bool))
DeepLLanguageV3 = shape(
    "DeepLLanguageV3",
    **dict.fromkeys(("lang", "name", "status"), str),
    **dict.fromkeys(("usable_as_source", "usable_as_target"), bool),
    features=Record,
)
DeepLFeature = shape("DeepLFeature", name=str, needs_source_support=maybe(bool), needs_target_support=maybe(bool))
DeepLResource = shape("DeepLResource", name=str, features=many(DeepLFeature))
DeepLPair = shape("DeepLPair", **PAIR)
DeepLPairs = shape("DeepLPairs", supported_languages=many(DeepLPair))
DeepLDictionary = shape("DeepLDictionary", **DICTIONARY)
DeepLGlossary = shape("DeepLGlossary", **DICTIONARY, **GLOSSARY, ready=bool)
DeepLGlossaries = shape("DeepLGlossaries", glossaries=many(DeepLGlossary))
DeepLGlossaryV3 = shape("DeepLGlossaryV3", **GLOSSARY, dictionaries=many(DeepLDictionary))
DeepLGlossariesV3 = shape("DeepLGlossariesV3", glossaries=many(DeepLGlossaryV3))

GoogleTranslation = shape("GoogleTranslation", translatedText=str, detectedSourceLanguage=maybe(str), model=maybe(str))
GoogleTranslations = shape("GoogleTranslations", translations=many(GoogleTranslation))
GoogleTranslated = shape("GoogleTranslated", data=GoogleTranslations)
GoogleDetection = shape("GoogleDetection", language=str, isReliable=bool, confidence=float)
GoogleDetections = shape("GoogleDetections", detections=many(many(GoogleDetection)))
GoogleDetected = shape("GoogleDetected", data=GoogleDetections)
GoogleLanguage = shape("GoogleLanguage", language=str, name=maybe(str))
GoogleLanguages = shape("GoogleLanguages", languages=many(GoogleLanguage))
GoogleListed = shape("GoogleListed", data=GoogleLanguages)
GoogleV3Translation = shape(
    "GoogleV3Translation",
    translatedText=str,
    model=maybe(str),
    detectedLanguageCode=maybe(str),
    glossaryConfig=maybe(Record),
)
GoogleV3Translations = shape(
    "GoogleV3Translations",
    translations=many(GoogleV3Translation),
    glossaryTranslations=maybe(many(GoogleV3Translation)),
)
GoogleV3Detection = shape("GoogleV3Detection", languageCode=str, confidence=float)
GoogleV3Detections = shape("GoogleV3Detections", languages=many(GoogleV3Detection))
GoogleV3Language = shape(
    "GoogleV3Language", languageCode=str, displayName=maybe(str), supportSource=bool, supportTarget=bool
)
GoogleV3Languages = shape("GoogleV3Languages", languages=many(GoogleV3Language))

OpenAIModel = shape("OpenAIModel", id=str, object=str, created=Count, owned_by=str)
OpenAIModels = shape("OpenAIModels", object=str, data=many(OpenAIModel))
OpenAIUsage = shape("OpenAIUsage", prompt_tokens=Count, completion_tokens=maybe(Count), total_tokens=Count)
OpenAIEmbedding = shape("OpenAIEmbedding", object=str, index=Count, embedding=Any)
OpenAIEmbeddings = shape("OpenAIEmbeddings", object=str, data=many(OpenAIEmbedding), model=str, usage=OpenAIUsage)
OpenAIMessage = shape("OpenAIMessage", role=str, content=str, refusal=str | None)
OpenAIChoice = shape("OpenAIChoice", index=Count, message=OpenAIMessage, logprobs=Any, finish_reason=str)
OpenAICompletion = shape(
    "OpenAICompletion",
    id=str,
    created=Count,
    model=str,
    object=str,
    choices=many(OpenAIChoice),
    usage=OpenAIUsage,
)
Predictions = shape("Predictions", predictions=Strings)

DeepLError = shape("DeepLError", message=str)
GoogleReason = shape("GoogleReason", message=str, domain=str, reason=str)
GoogleDetails = shape("GoogleDetails", code=int, message=str, status=str, errors=many(GoogleReason))
GoogleError = shape("GoogleError", error=GoogleDetails)
OpenAIDetails = shape("OpenAIDetails", message=str, type=str, param=str | None, code=str | None)
OpenAIError = shape("OpenAIError", error=OpenAIDetails)
MlflowError = shape("MlflowError", error_code=str, message=str)
