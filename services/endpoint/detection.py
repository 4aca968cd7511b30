"""The language of a text, by py3langid: limited to the served languages, but for a text that is clearly in another.

The limit makes the library right for short texts (of two words of English or German: 99 %). The limit alone would call
a French text English where only English and German are served. So another language wins where it is 20 times as
probable as every served one: that names 99.6 % of French lines and 87 % of their first four words, and is wrong for
0.1 % of the first two words of English and German lines (Multi30k, the test set of 2016).
"""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from model.languages import base_language, standard_code

FACTOR = 20.0  # how much more probable another language must be than the served ones
LONGEST = 1000  # characters that are read of a text
RARE = 0.01  # a less probable other language is not named
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
        found: Counter[str] = Counter()
        for label, probability in self.load().rank(text):
            found[base_language(label)] += probability
        del found[NO_LANGUAGE]
        offered = {base_language(code): standard_code(code) for code in reversed(served)}
        inside = {code: found[code] for code in offered}
        if all(code in found for code in offered):  # nothing can be said against a language that the library lacks
            least = FACTOR * max(inside.values(), default=0.0)
            others = {code: share for code, share in found.items() if code not in inside and share >= max(least, RARE)}
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
        """Returns True if `language` is the most probable of all; the short way for texts that are what they should."""
        return base_language(self.load().classify(text[:LONGEST])[0]) == base_language(language)

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
