"""The parameters of DeepL's /v2/translate: all are checked; those that no model here can follow are refused, or named
as ignored where DeepL takes them for a wish.
"""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, Field

from services.endpoint.requests import Language, Parameters, Strings, Switch, Texts, Wording, refuse

WORDING = Wording(
    "Parameter '{name}' not specified.", "Value for '{name}' not supported.", "Value for '{name}' not supported."
)
IGNORED = "X-Ignored-Parameters"  # the header that names parameters without an effect
REFUSED = {  # what this server has none of
    "style_id": "style rules",
    "custom_instructions": "models that follow instructions",
    "translation_memory_id": "translation memories of DeepL's kind",
}
MODELS = ("quality_optimized", "latency_optimized", "prefer_quality_optimized")
Tags = Annotated[Strings | str, Field(title="a list of tags, or their names with commas between them")]
Formality = Literal["default", "more", "less", "prefer_more", "prefer_less"]
Lower = BeforeValidator(lambda given: given.lower() if isinstance(given, str) else given)


def is_on(given: Any) -> bool:
    """Returns True for a switch that is set, in JSON or in a form."""
    return given in (True, "true", "True", "1")


def tags(given: list[str] | str) -> tuple[str, ...]:
    """Returns the names of tags."""
    names = given.split(",") if isinstance(given, str) else given
    return tuple(name.strip() for name in names if name.strip())


class TranslationRequest(Parameters):
    """The parameters of /v2/translate."""

    text: Annotated[Texts, Field(min_length=1)] = Field(examples=[["The dog sees the man."]])
    target_lang: Language = Field(examples=["DE"])
    source_lang: Language | None = Field(None, title="a language code")
    context: str | None = Field(None, title="a string", description="taken and ignored: the models read sentences")
    split_sentences: Literal["0", "1", "nonewlines", 0, 1, True, False] = "1"
    preserve_formatting: Switch = Field(False, description="formatting is always preserved")
    formality: Annotated[Formality, Lower] = Field("default", description="more and less are refused")
    glossary_id: Annotated[str, Field(title="a glossary's id")] | None = None
    tag_handling: Literal["xml", "html", ""] | None = None
    tag_handling_version: Literal["v1", "v2", ""] | None = None
    outline_detection: Switch = True
    splitting_tags: Tags = Field(default_factory=list)
    non_splitting_tags: Tags = Field(default_factory=list)
    ignore_tags: Tags = Field(default_factory=list)
    show_billed_characters: Switch = False
    model_type: Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized", ""] | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_here(cls, given: Any) -> Any:
        if isinstance(given, dict):
            for name, what in REFUSED.items():
                if given.get(name):
                    refuse(f"Value for '{name}' not supported: this server has no {what}.")
        return given

    @pydantic.model_validator(mode="after")
    def _refuse_formality(self) -> "TranslationRequest":
        if self.formality in ("more", "less"):
            refuse(f"Target language '{self.target_lang.upper()}' doesn't support formality.")
        if self.glossary_id and not self.source_lang:
            refuse("Use of a glossary requires the source_lang parameter to be specified")
        return self

    @property
    def texts(self) -> list[str]:
        """Returns the texts to translate."""
        return self.text if isinstance(self.text, list) else [self.text]

    def ignored(self) -> dict[str, str]:
        """Returns the header that names the given parameters without an effect; empty if there are none."""
        names = {
            "context": bool(self.context),
            "formality": self.formality.startswith("prefer_"),
            "model_type": self.model_type not in (None, ""),
        }
        found = ", ".join(name for name, given in names.items() if given)
        return {IGNORED: found} if found else {}
