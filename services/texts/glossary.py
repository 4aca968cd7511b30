"""Glossaries: source terms and how they are translated, read from TSV, CSV and TBX."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import regex

from dragoman.model.errors import UserError
from dragoman.model.languages import base_language
from dragoman.services.texts.stems import stem
from dragoman.services.texts.tbx import read_tbx

MOST_TERMS = 10_000
MOST_WORDS = 12  # of a term that is found in other forms
WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
ARTICLES = {
    "de": "der die das den dem des ein eine einen einem einer eines",
    "en": "the a an",
    "es": "el la los las un una unos unas",
    "fr": "le la les un une des du",
    "it": "il lo la i gli le un uno una",
    "nl": "de het een",
    "pt": "o a os as um uma uns umas",
}
_JOINT = regex.compile(r"[\s\u00ad-]+")


class Found(NamedTuple):
    """A term in a text."""

    start: int
    end: int
    target: str  # its translation, with the capitals of the text
    exact: bool  # False: the text has another form of the term


@dataclass(frozen=True, eq=False)
class Glossary:
    """Source terms and how they are translated. A term is found as whole words, in any case and with any ending."""

    terms: Mapping[str, str] = field(default_factory=dict)

    def find(self, text: str, language: str) -> Iterator[Found]:
        """Yields the places of terms in a text of this language, apart from each other, and what they become there."""
        index = _index(self, language)
        words = list(WORD.finditer(text))
        place = 0
        for number, word in enumerate(words):
            if word.start() < place:
                continue
            following = words[number : number + MOST_WORDS]
            terms = index.get(stem(word.group(), language), ())
            found = next(filter(None, (self._exact(term, text, word.start(), place) for term in terms)), None)
            found = found or next(filter(None, (self._form(term, text, following, language) for term in terms)), None)
            if found:
                yield found
                place = found.end

    def _exact(self, term: str, text: str, at: int, place: int) -> Found | None:
        """Returns the term if it is there as it is written, in any case."""
        first = WORD.search(term)
        start = at - (first.start() if first else 0)
        end = start + len(term)
        whole = not text[end - 1 : end].isalnum() or not text[end : end + 1].isalnum()
        if start >= place and whole and text[start:end].lower() == term.lower():
            return Found(start, end, _in_case(self.terms[term], term, text[start:end]), True)
        return None

    def _form(self, term: str, text: str, words: Sequence["regex.Match[str]"], language: str) -> Found | None:
        """Returns the term if it is there with other endings."""
        wanted = WORD.findall(term)
        given = words[: len(wanted)]
        if len(given) < len(wanted) or _JOINT.sub("", WORD.sub("", term)):
            return None
        gaps = (text[one.end() : other.start()] for one, other in pairwise(given))
        if not all(map(_JOINT.fullmatch, gaps)):
            return None
        if any(stem(one.group(), language) != stem(word, language) for one, word in zip(given, wanted, strict=True)):
            return None
        start, end = given[0].start(), given[-1].end()
        return Found(start, end, _in_case(self.terms[term], term, text[start:end]), False)

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]], where: str) -> "Glossary":
        """Returns the glossary of (source term, target term); `where` opens the messages.

        Raises:
            UserError: an empty term, two translations of one term, or too many terms.
        """
        terms: dict[str, str] = {}
        for number, (source, target) in enumerate(rows, 1):
            source, target = source.strip(), target.strip()
            if not source or not target:
                raise UserError(f"{where}, entry {number}: a term is empty")
            if terms.setdefault(source, target) != target:
                raise UserError(f"{where}, entry {number}: {source!r} has two translations")
        if len(terms) > MOST_TERMS:
            raise UserError(f"{where}: {len(terms):,} terms; at most {MOST_TERMS:,} are allowed")
        return cls(terms)


def _in_case(target: str, term: str, found: str) -> str:
    """Returns a term's translation with the capitals that the text gives the term."""
    if found.isupper() and not term.isupper() and len(found) > 1:
        return target.upper()
    if found[:1].isupper() and term[:1].islower():
        return target[:1].upper() + target[1:]
    return target


@lru_cache(64)
def _index(glossary: Glossary, language: str) -> Mapping[str, Sequence[str]]:
    """Returns the terms by the stem of their first word, the longest first."""
    found: dict[str, list[str]] = {}
    for term in sorted(glossary.terms, key=len, reverse=True):
        if word := WORD.search(term):
            found.setdefault(stem(word.group(), language), []).append(term)
    return found


def read_glossary(path: str, key: str, source: str, target: str) -> Glossary:
    """Returns the glossary in a file of lines `source TAB target` (.csv: with a comma), or the terms of these languages
    in a .tbx file; `key` names the setting.

    Raises:
        UserError: the file cannot be read, a line has no two columns, or no term is of these languages.
    """
    where = f"{key}={path}"
    try:
        content = Path(path).read_bytes()
        if Path(path).suffix.lower() == ".tbx":
            return Glossary.of(read_tbx(content, source, target, where), where)
        file = io.StringIO(content.decode("utf-8-sig"), newline="")
        return Glossary.of(_columns(file, "," if Path(path).suffix.lower() == ".csv" else "\t", where), where)
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"{where} cannot be read: {problem}") from None


def _columns(file: Iterable[str], delimiter: str, where: str) -> Iterator[tuple[str, str]]:
    rows = csv.reader(file) if delimiter == "," else csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    for number, row in enumerate(rows, 1):
        if not any(row):
            continue
        if len(row) < 2:
            raise UserError(f"{where}, line {number}: {delimiter.join(row)!r} has no two columns")
        yield row[0], row[1]


def article_before(text: str, start: int, language: str) -> str:
    """Returns the article of this language that stands before a place in a text; empty if there is none."""
    words = text[max(0, start - 10) : start].split()
    return (
        words[-1] if words and words[-1].lower() in ARTICLES.get(base_language(language or "und"), "").split() else ""
    )
