"""The parameters of DeepL's /v2/translate: all are checked.

Those that no model here can follow are refused, or named as ignored where DeepL takes them for a wish.
"""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, Field

from dragoman.services.endpoint.requests import Language, Parameters, Strings, Switch, Texts, Wording
from dragoman.services.texts.options import SplitSentences, TextOptions

WORDING = Wording("Parameter '{name}' not specified.", "Value for '{name}' not supported.")
IGNORED = "X-Ignored-Parameters"  # the header that names parameters without an effect
REFUSED = {  # what this server has none of
    "glossary_id": "stored glossaries",
    "glossary_ids": "stored glossaries",
    "style_id": "style rules",
    "custom_instructions": "models that follow instructions",
    "translation_memory_id": "translation memories",
}
SPLITS: dict[str, SplitSentences] = {
    **dict.fromkeys(("1", "True"), "newlines"),
    **dict.fromkeys(("0", "False"), "off"),
    "nonewlines": "nonewlines",
}
Tags = Annotated[Strings | str, Field(title="a list of tags, or their names with commas between them")]
Formality = Literal["default", "more", "less", "prefer_more", "prefer_less"]
Lower = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)


class DeepLRequest(Parameters):
    """The parameters of /v2/translate."""

    text: Texts = Field(examples=[["The dog sees the man."]])
    target_lang: Language = Field(examples=["DE"])
    source_lang: Language | None = Field(None, title="a language code")
    formality: Annotated[Formality, Lower] = Field("default", description="more and less are refused")
    enable_beta_languages: Switch = Field(False, description="taken and ignored: every language is offered")
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

    @pydantic.model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_here(cls, value: Any) -> Any:
        for name, what in REFUSED.items() if isinstance(value, dict) else ():
            if value.get(name):
                raise ValueError(f"Value for '{name}' not supported: this server has no {what}.")
        return value

    @pydantic.model_validator(mode="after")
    def _refuse_formality(self) -> "DeepLRequest":
        if self.formality in ("more", "less"):
            raise ValueError(f"Target language '{self.target_lang.upper()}' doesn't support formality.")
        return self

    def options(self) -> TextOptions:
        """Returns what is asked for beside the languages."""
        return TextOptions(
            format=self.tag_handling or "text",
            ignore_tags=_tags(self.ignore_tags),
            splitting_tags=_tags(self.splitting_tags),
            non_splitting_tags=_tags(self.non_splitting_tags),
            outline_detection=bool(self.outline_detection),
            split_sentences=SPLITS[str(self.split_sentences)],
        )

    def ignored(self) -> str:
        """Returns the names of the given parameters without an effect; empty if there are none."""
        wishes = {
            "context": self.context,
            "enable_beta_languages": self.enable_beta_languages,
            "formality": self.formality.startswith("prefer_"),
            "model_type": self.model_type,
        }
        return ", ".join(name for name, given in wishes.items() if given)


def _tags(value: list[str] | str) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in names if name.strip())
