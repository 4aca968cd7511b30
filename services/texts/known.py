"""Known translations: a text that people have translated before, or one that is like it."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from rapidfuzz import fuzz, process

LONGEST = 1000  # characters of a text that is compared with similar ones


class Match(NamedTuple):
    """A known translation of a text, or of a similar one."""

    text: str  # the known text
    translation: str
    score: float  # 100: the same text
    origin: str  # the file that it came from, or `suggestion`

    def fitted(self, text: str) -> str:
        """Returns the translation with the blanks that `text` begins and ends with."""
        body = text.strip()
        start = text.index(body) if body else 0
        return f"{text[:start]}{self.translation.strip()}{text[start + len(body) :]}"

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return self._asdict()


Units: TypeAlias = dict[str, Match]  # by the text as it is compared


def comparable(text: str) -> str:
    """Returns a text as it is compared: in the form NFC, with single blanks, without blanks at its ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def most_similar(units: Mapping[str, Match], query: str, least: float) -> Match | None:
    """Returns the unit that is most like a text `query`, as it is compared; `least`: its score, of 100."""
    if not query or len(query) > LONGEST:
        return None
    best = process.extractOne(query, units.keys(), scorer=fuzz.ratio, score_cutoff=least)
    return None if best is None else units[best[0]]._replace(score=round(best[1], 1))


@dataclass(frozen=True, eq=False)
class KnownTranslations:
    """The known translations of a pair of languages."""

    units: Mapping[str, Match]
    fuzzy: float | None = None  # the least similarity (0 to 1) of a similar text that is reported; None: none is

    def exact(self, text: str) -> Match | None:
        """Returns the known translation of this very text."""
        return self.units.get(comparable(text))

    def similar(self, text: str) -> Match | None:
        """Returns the known translation of the most similar text, if one is similar enough."""
        return None if self.fuzzy is None else most_similar(self.units, comparable(text), 100 * self.fuzzy)
