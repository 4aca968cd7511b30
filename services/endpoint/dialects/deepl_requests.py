"""The parameters of DeepL's /v2/translate and /v2/document: all are checked.

Those that no model here can follow are refused, or named as ignored where DeepL takes them for a wish.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, Field

from dragoman.services.endpoint.requests import Language, Parameters, Strings, Switch, Text, Texts, Wording, refuse

WORDING = Wording(
    "Parameter '{name}' not specified.", "Value for '{name}' not supported.", "Value for '{name}' not supported."
)
NAMES = ("source_lang", "target_lang")
IGNORED = "X-Ignored-Parameters"  # the header that names parameters without an effect
REFUSED = {  # what this server has none of
    "style_id": "style rules",
    "custom_instructions": "models that follow instructions",
    "translation_memory_id": "translation memories of DeepL's kind",
}
MOST_GLOSSARIES = 5
Tags = Annotated[Strings | str, Field(title="a list of tags, or their names with commas between them")]
Formality = Literal["default", "more", "less", "prefer_more", "prefer_less"]
Lower = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)


def tags(value: list[str] | str) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in names if name.strip())


class PairRequest(Parameters):
    """The parameters of texts and documents alike."""

    target_lang: Language = Field(examples=["DE"])
    source_lang: Language | None = Field(None, title="a language code")
    formality: Annotated[Formality, Lower] = Field("default", description="more and less are refused")
    glossary_id: Annotated[str, Field(title="a glossary's id")] | None = None
    enable_beta_languages: Switch = Field(False, description="taken and ignored: every language is offered")
    glossary_ids: Tags = Field(default_factory=list, description="at most 5; the first that has a term counts")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_here(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for name, what in REFUSED.items():
                if value.get(name):
                    refuse(f"Value for '{name}' not supported: this server has no {what}.")
        return value

    @pydantic.model_validator(mode="after")
    def _check_wishes(self) -> "PairRequest":
        if self.formality in ("more", "less"):
            refuse(f"Target language '{self.target_lang.upper()}' doesn't support formality.")
        if self.glossary_id and tags(self.glossary_ids):
            refuse("Only one of 'glossary_id' and 'glossary_ids' can be specified")
        if len(self.glossaries) > MOST_GLOSSARIES:
            refuse(f"Value for 'glossary_ids' not supported: {MOST_GLOSSARIES} at most.")
        if self.glossaries and not self.source_lang:
            refuse("Use of a glossary requires the source_lang parameter to be specified")
        return self

    @property
    def glossaries(self) -> Sequence[str]:
        """Returns the ids of the glossaries, the most important first."""
        return [self.glossary_id] if self.glossary_id else tags(self.glossary_ids)

    def without_effect(self) -> dict[str, bool]:
        """Returns the names of parameters that have no effect, and whether they are given."""
        beta = bool(self.enable_beta_languages)
        return {"enable_beta_languages": beta, "formality": self.formality.startswith("prefer_")}

    def ignored(self) -> dict[str, str]:
        """Returns the header that names the given parameters without an effect; empty if there are none."""
        names = ", ".join(sorted(name for name, is_given in self.without_effect().items() if is_given))
        return {IGNORED: names} if names else {}


class TranslationRequest(PairRequest):
    """The parameters of /v2/translate."""

    text: Annotated[Texts, Field(min_length=1)] = Field(examples=[["The dog sees the man."]])
    context: str | None = Field(None, title="a string", description="taken and ignored: the models read sentences")
    split_sentences: Literal["0", "1", "nonewlines", 0, 1, True, False] = "1"
    preserve_formatting: Switch = Field(False, description="formatting is always preserved")
    tag_handling: Literal["xml", "html", ""] | None = None
    tag_handling_version: Literal["v1", "v2", ""] | None = None
    outline_detection: Switch = True
    splitting_tags: Tags = Field(default_factory=list)
    non_splitting_tags: Tags = Field(default_factory=list)
    ignore_tags: Tags = Field(default_factory=list)
    show_billed_characters: Switch = False
    model_type: Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized", ""] | None = None

    def without_effect(self) -> dict[str, bool]:
        effects = {"context": bool(self.context), "model_type": self.model_type not in (None, "")}
        return {**effects, **super().without_effect()}


class DocumentRequest(PairRequest):
    """The parameters of /v2/document beside the file."""

    filename: str = Field("", title="a string", description="where the file's part of the form has no name")
    output_format: Annotated[str, Lower] = Field(
        "", title="the ending of the file's name", description="another is refused"
    )
    enable_document_minification: Switch = Field(False, description="taken and ignored")

    def without_effect(self) -> dict[str, bool]:
        return {"enable_document_minification": bool(self.enable_document_minification), **super().without_effect()}


class DocumentKeyRequest(Parameters):
    """The proof that a document is the client's."""

    document_key: Text
