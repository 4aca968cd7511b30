"""The language of a text, by py3langid: limited to the served languages, but for a text that is clearly in another.

The limit makes the library right for short texts (of two words of English or German: 98 %). The limit alone would call
a French text English where only English and German are served. So another language wins where it is 20 times as
probable as every served one: that names 99.7 % of French lines and 86 % of their first four words, and is wrong for
the first two words of 4 of 2,028 English and German lines. These figures and the settings below are of validation sets:
Multi30k's English, German, French and Czech lines (1,014 of each), and 1,000 English and 1,000 German ones of WMT news.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from dragoman.model.languages import base_language, standard_code

# How much more probable another language must be than the served ones, and Latin, which few texts are in. At 10 the
# first four words of 90 % of the French lines are named, and 10 of the 2,028 beginnings are wrong; at 50, 73 % and 2.
FACTOR = 20.0
LONGEST = 1000  # characters that are read of a text
# Characters of a short text, and of its beginning, which is looked at first. 48 is the least of 16 to 96 at which the
# beginnings of Multi30k's English, German and French lines tell as much as the whole lines; for 3 lines of WMT the
# beginning names another of the four languages below and the whole line does not, at 40 for 6.
SHORT, HEAD = 256, 48
RARE = 0.01  # a less probable other language is not named
# The most common words of a language that few texts of other languages have. The library's tables are far larger than a
# processor's cache: beside a busy engine its answer takes ten times as long as counting these.
_COMMON = {
    "en": "the and of is are was with that this it you for not have has they his her their from which would a at",
    "de": "der und ist ein eine einen einem einer nicht das mit auf für sich ich sie den dem von wird sind auch",
    "fr": "le les des est une dans et pour qui sur avec pas sont nous vous cette aux plus leur il elle",
    "es": "el los las una y con por para está del es que como más su al son pero muy este esta sus",
}
COMMON = {code: frozenset(words.split()) for code, words in _COMMON.items()}
# One in so many words of a text must be one of these, and two of them differ. At 6, one of the 6,056 lines is taken for
# another language and 3,405 are told; at 5, none and 2,999; at 8, 4 and 3,775.
SHARE = 6
KEPT = 4096  # short texts whose result is kept
NO_LANGUAGE = "zxx"  # a label of the library's: no text


class Guess(NamedTuple):
    """A language and its probability in percent."""

    language: str  # in BCP 47; a served one as it is served
    confidence: float


UNKNOWN = Guess("", 0.0)


@dataclass
class Detector:
    """Identifies languages. The library's model is loaded on first use: a second, and 74 MB of memory."""

    _identifier: LanguageIdentifier | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _agreed: dict[int | None, bool] = field(default_factory=dict)  # by the hash of a short text and a language

    @property
    def loaded(self) -> bool:
        """Returns True if the next question loads nothing."""
        return self._identifier is not None

    def rank(self, text: str, served: Sequence[str]) -> list[Guess]:
        """Returns the languages that the text may be in, most probable first; none if it has no letters.

        The first is one of `served`, unless another language is clearly more probable.
        """
        text = text[:LONGEST]
        if not any(map(str.isalpha, text)):
            return []
        shares: dict[str, float] = {}
        for label, probability in self.load().rank(text):
            code = base_language(label)
            shares[code] = shares.get(code, 0.0) + probability
        shares.pop(NO_LANGUAGE, None)
        if "la" in shares:
            shares["la"] /= FACTOR
        offered = {base_language(code): standard_code(code) for code in reversed(served)}
        inside = {code: shares.get(code, 0.0) for code in offered}
        if all(code in shares for code in offered):  # nothing can be said against a language that the library lacks
            least = FACTOR * max(inside.values(), default=0.0)
            others = {code: share for code, share in shares.items() if code not in inside and share >= max(least, RARE)}
        else:
            others = {}
        total = 1.0 if others else sum(inside.values())
        guesses = (
            [Guess(offered.get(code, code), round(100 * share / total, 1)) for code, share in (inside | others).items()]
            if total
            else []
        )
        return sorted(guesses, key=lambda guess: -guess.confidence)

    def agrees(self, text: str, language: str) -> bool:
        """Returns True if `language` is the most probable of all; the short way for texts that are what they should.

        Common words suffice, or the beginning of a short text. Of Multi30k's validation set (1,014 lines each) 789
        English, 853 German and 580 French lines have enough of them; of these and of the Czech lines one is taken for
        another language, by its words and by the library.
        """
        whole, base = text[:LONGEST], base_language(language)
        words, common = whole.lower().split(), COMMON.get(base, frozenset())
        if len(common.intersection(words)) > 1 and SHARE * sum(map(common.__contains__, words)) >= len(words):
            return True
        mark = hash((whole, base)) if len(whole) <= SHORT else None  # of a text that may come again; not the text
        if mark in self._agreed:
            return self._agreed[mark]
        ways = (whole[:HEAD], whole) if HEAD < len(whole) <= SHORT else (whole,)
        agreed = any(base_language(self.load().classify(way)[0]) == base for way in ways)
        if mark is not None:
            if len(self._agreed) >= KEPT:
                self._agreed.clear()
            self._agreed[mark] = agreed
        return agreed

    def detect(self, text: str, served: Sequence[str]) -> Guess:
        """Returns the most probable language; UNKNOWN if the text has no letters."""
        return next(iter(self.rank(text, served)), UNKNOWN)

    def known(self, languages: Sequence[str]) -> set[str]:
        """Returns those of the languages that can be identified."""
        labels = {base_language(label) for label, _ in self.load().rank("")}
        return {code for code in languages if base_language(code) in labels}

    def load(self) -> LanguageIdentifier:
        """Returns the library's model, loaded once."""
        with self._lock:
            if self._identifier is None:
                self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            return self._identifier
