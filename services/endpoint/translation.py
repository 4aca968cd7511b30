"""A question to the translation models and its answer, in no client's dialect."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.model.languages import standard_code
from dragoman.services.endpoint.keys import NOBODY, Key
from dragoman.services.texts.options import TextOptions


@dataclass(frozen=True)
class Question:
    """Texts to translate, with what every dialect can ask for; its languages are in BCP 47's spelling."""

    texts: Sequence[str]
    source: str | None  # language; None: detect it
    target: str
    alternatives: int = 0  # other translations of each text
    aligned: bool = False  # with attention
    options: TextOptions = field(default_factory=TextOptions)
    key: Key = NOBODY  # of who asks, which pays

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source and standard_code(self.source))
        object.__setattr__(self, "target", standard_code(self.target))


@dataclass(frozen=True)
class Answer:
    """One text's translation."""

    text: str
    source: str  # language, asked for or detected, spelled as in BCP 47
    confidence: float  # of the detection, 0 to 100
    alternatives: Sequence[str]
    losses: dict[str, Any]  # what was not translated completely, `Losses.record`
    alignment: Sequence[dict[str, Any]] = ()  # one record a sentence; empty unless asked for
    report: dict[str, Any] = field(default_factory=dict)  # the certificate: what was kept and how, `texts.report`
    via: str = ""  # the language in the middle, if two models translated
