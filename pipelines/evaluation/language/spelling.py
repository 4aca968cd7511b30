"""The cost of the text that a tokenizer's ids omit: the letters of unknown words, odd spaces.

Bits per character compare tokenizers only if each model describes the whole text: what one omits as <unk> costs another
its bits. So every unknown word is charged by a code for its letters that is complete (the probabilities of all next
symbols sum to 1) and decodable (it knows only the tokenizer and the text before):

    P(word) = product of P(c) over its characters and its end

    P(c) = (n(c) + t / SYMBOLS) / (n + t)

n(c) counts a character so far, n all characters, t the distinct ones: Witten-Bell smoothing (Witten and Bell 1991,
method C) down to the uniform code over all of Unicode. The counts start with the words of the vocabulary, once each,
and take in unknown words as they come: an adaptive code (Cleary and Witten 1984). It knows how frequent characters are,
not their order: a better speller would favour networks that cannot spell.

Words omit spaces too. The adaptive code of Krichevsky and Trofimov 1981 tells whether the space between two words is as
the tokenizer would write it: P(not) = (misses + 1/2) / (gaps + 1).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dragoman.model.text.tokenizer import SPECIAL, UNK, Ids, Tokenizer
from dragoman.model.text.words import WordTokenizer

END = "\n"  # end of a word: a character that no record contains
SYMBOLS = 0x110000 - 0x800  # Unicode's code points without surrogates; END is one of them


class SpellingCode:
    """P(c), adaptive."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.seen = Counter[str]()  # c -> n(c)
        self.size = 0  # n
        for word in words:
            self.learn(word + END)

    def probability(self, symbol: str) -> float:
        """Returns P(symbol)."""
        kinds = len(self.seen)
        return (self.seen[symbol] + kinds / SYMBOLS) / (self.size + kinds) if kinds else 1 / SYMBOLS

    def nats(self, symbols: str) -> float:
        """Returns the current cost of the characters (with END, if it must be coded)."""
        return -sum(math.log(self.probability(symbol)) for symbol in symbols)

    def learn(self, symbols: str) -> None:
        """Counts the characters."""
        self.seen.update(symbols)
        self.size += len(symbols)


class SpacingCode:
    """The adaptive code for whether gaps between words are as expected."""

    def __init__(self) -> None:
        self.hits = self.misses = 0

    def nats(self, hits: int, misses: int) -> float:
        """Returns the cost of so many gaps, in any order, and counts them."""
        gamma, before = math.lgamma, self.hits + self.misses
        nats = gamma(self.hits + 0.5) - gamma(self.hits + hits + 0.5)
        nats += gamma(self.misses + 0.5) - gamma(self.misses + misses + 0.5)
        nats += gamma(before + hits + misses + 1) - gamma(before + 1)
        self.hits, self.misses = self.hits + hits, self.misses + misses
        return nats


def spelling_nats(tokenizer: Tokenizer, texts: Sequence[str], encoded: Sequence[Ids]) -> NDArray[np.float64]:
    """Returns (records,) nats for what the ids of each text omit, given the texts before it."""
    words = tokenizer if isinstance(tokenizer, WordTokenizer) else None
    code = SpellingCode(words.pieces(range(len(SPECIAL), words.vocabulary)) if words else ())
    end = "" if tokenizer.type == "characters" else END  # an unknown character needs no end
    spacing = SpacingCode()
    nats = np.zeros(len(texts))
    for row, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
        for unit in tokenizer.unknown(text) if UNK in ids else ():
            nats[row] += code.nats(unit + end)
            code.learn(unit + end)
        if words and words.rules.punctuation:  # else the gaps hold what the rules drop
            nats[row] += spacing.nats(*_gaps(words, text))
    return nats


def described_text(tokenizer: Tokenizer) -> str:
    """Returns the name of the text that ids and `spelling_nats` describe; figures compare only for the same name."""
    if not isinstance(tokenizer, WordTokenizer):
        return "as it stands"
    case = "in lower case" if tokenizer.rules.lowercase else "as it stands"
    return case if tokenizer.rules.punctuation else f"{case}, without punctuation and spaces"


def _gaps(tokenizer: WordTokenizer, text: str) -> tuple[int, int]:
    """Returns how many gaps between a text's words are as the tokenizer writes them, and how many are not."""
    units, folded = tokenizer.split(text), tokenizer.rules.fold_case(text)
    written = tokenizer.join(units)
    gaps = max(0, len(units) - 1)
    if written == folded:
        return gaps, 0
    misses = sum(left != other for left, other in zip(_spaced(folded, units), _spaced(written, units), strict=True))
    return gaps - misses, misses


def _spaced(text: str, units: Sequence[str]) -> Iterator[bool]:
    """Yields True for each unit that follows a space."""
    at = 0
    for unit in units:
        place = text.index(unit, at)
        yield place > at
        at = place + len(unit)
