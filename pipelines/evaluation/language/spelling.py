"""What a tokenizer's ids do not say of a text, and what it costs to say it: the letters of unknown words, odd spaces.

Bits a character compare tokenizers only where each model describes the whole text: what one leaves out as <unk> costs
another its bits. So every unknown word is charged by a code for its letters that is complete (the probabilities of all
that may come next sum to 1) and decodable (it knows the tokenizer and the text before, nothing else):

    P(word) = product of P(c) over its characters and its end

    P(c) = (n(c) + t / SYMBOLS) / (n + t)

n(c) counts what has been seen of a character, n of all, t how many different ones: Witten-Bell smoothing (Witten and
Bell 1991, method C) down to the uniform code over all of Unicode. Seen are the words of the vocabulary, once each, and
then the unknown words as they come: an adaptive code (Cleary and Witten 1984). It knows how frequent characters are,
not which follow which: a better speller would be credited to networks that cannot spell, and they would win by it.

Words leave out spaces too. Whether one stands between two words is told as "as the tokenizer would write it" or not, by
the adaptive code of Krichevsky and Trofimov 1981: P(not) = (misses + 1/2) / (gaps + 1).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from model.text.tokenizer import SPECIAL, UNK, Ids, Tokenizer
from model.text.words import WordTokenizer

END = "\n"  # of a word: a character that no record holds
SYMBOLS = 0x110000 - 0x800  # Unicode's code points but for surrogates; END is one of them


class SpellingCode:
    """P(c), learning as it goes."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.seen = Counter[str]()  # c -> n(c)
        self.size = 0  # n
        for word in known:
            self.learn(word + END)

    def probability(self, symbol: str) -> float:
        """P(symbol)."""
        kinds = len(self.seen)
        return (self.seen[symbol] + kinds / SYMBOLS) / (self.size + kinds) if kinds else 1 / SYMBOLS

    def nats(self, symbols: str) -> float:
        """What the characters (with END, where it must be told) cost now."""
        return -sum(math.log(self.probability(symbol)) for symbol in symbols)

    def learn(self, symbols: str) -> None:
        """Count them."""
        self.seen.update(symbols)
        self.size += len(symbols)


class SpacingCode:
    """Whether gaps between words are as expected, learning as it goes."""

    def __init__(self) -> None:
        self.hits = self.misses = 0

    def nats(self, hits: int, misses: int) -> float:
        """What so many gaps cost, in any order; they are counted."""
        gamma, before = math.lgamma, self.hits + self.misses
        found = gamma(self.hits + 0.5) - gamma(self.hits + hits + 0.5)
        found += gamma(self.misses + 0.5) - gamma(self.misses + misses + 0.5)
        found += gamma(before + hits + misses + 1) - gamma(before + 1)
        self.hits, self.misses = self.hits + hits, self.misses + misses
        return found


def spelling_nats(tokenizer: Tokenizer, texts: Sequence[str], encoded: Sequence[Ids]) -> NDArray[np.float64]:
    """(records,) nats that describe what the ids of each text leave out, each given the texts before it."""
    words = tokenizer if isinstance(tokenizer, WordTokenizer) else None
    code = SpellingCode(words.pieces(range(len(SPECIAL), words.vocabulary)) if words else ())
    end = "" if tokenizer.type == "characters" else END  # an unknown character is one
    spacing = SpacingCode()
    found = np.zeros(len(texts))
    for row, (text, ids) in enumerate(zip(texts, encoded, strict=True)):
        for unit in tokenizer.unknown(text) if UNK in ids else ():
            found[row] += code.nats(unit + end)
            code.learn(unit + end)
        if words and words.rules.punctuation:  # else the gaps hold what the rules leave out
            found[row] += spacing.nats(*_gaps(words, text))
    return found


def described_text(tokenizer: Tokenizer) -> str:
    """Which text it is that the ids and `spelling_nats` describe together: figures of different ones do not compare."""
    if not isinstance(tokenizer, WordTokenizer):
        return "as it stands"
    case = "in lower case" if tokenizer.rules.lowercase else "as it stands"
    return case if tokenizer.rules.punctuation else f"{case}, without punctuation and spaces"


def _gaps(tokenizer: WordTokenizer, text: str) -> tuple[int, int]:
    """How many gaps between the words of a text are as the tokenizer writes them, and how many are not."""
    units, folded = tokenizer.split(text), tokenizer.rules.fold_case(text)
    written = tokenizer.join(units)
    gaps = max(0, len(units) - 1)
    if written == folded:
        return gaps, 0
    misses = sum(one != other for one, other in zip(_spaced(folded, units), _spaced(written, units), strict=True))
    return gaps - misses, misses


def _spaced(text: str, units: Sequence[str]) -> Iterator[bool]:
    """Whether a space stands before each unit."""
    at = 0
    for unit in units:
        place = text.index(unit, at)
        yield place > at
        at = place + len(unit)
