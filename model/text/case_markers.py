"""Capitals as words of their own: `Two dogs RUN` is read as `<cap> two dogs <all> run`, and comes back as it was.

A word in capitals then has the pieces of the same word in small letters and one more, not a piece for every letter.
Words are what stands between blanks. A word whose capitals are neither its first letter nor all of them, such as
McDonald, stays as it is, and so does one whose small letters do not give its capitals back (İ). The rules are Unicode's
for every language.
"""

import re
from functools import lru_cache

CAP, ALL = MARKERS = ("<cap>", "<all>")
MARKED = re.compile(r"<(?:cap|all)>")
WRITTEN = re.compile(r"<+(?:cap|all)>")  # the beginning of a word of a text that looks like a marker


def mark(text: str) -> str:
    """Returns a text with markers before words in small letters; `restore` undoes it exactly."""
    return " ".join(map(mark_word, text.split(" ")))


@lru_cache(1 << 16)
def mark_word(word: str) -> str:
    """Returns a word with its marker; one that begins like a marker gets another bracket before it."""
    small = word.lower()
    for marker in MARKERS if small != word else ():
        if _capitals(small, marker) == word:
            return f"{marker} {mark_word(small)}"
    return f"<{word}" if WRITTEN.match(word) else word


def restore(text: str) -> str:
    """Returns a text with its capitals; a marker that no word follows is left out."""
    if "<" not in text:
        return text
    words, marker = [], ""
    for word in text.split(" "):
        if match := MARKED.match(word):
            marker, word = match[0], word[match.end() :]
            if not word:
                continue
        words.append(_capitals(word[1:] if WRITTEN.match(word) else word, marker))
        marker = ""
    return " ".join(words)


def _capitals(word: str, marker: str) -> str:
    """Returns a word with the capitals that its marker says."""
    if marker == ALL:
        return word.upper()
    if marker == CAP:
        first = next((place for place, sign in enumerate(word) if sign.upper() != sign), len(word))
        return word[:first] + word[first : first + 1].upper() + word[first + 1 :]
    return word
