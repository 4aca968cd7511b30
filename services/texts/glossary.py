"""Glossaries: source terms and how they are translated, read from TSV, CSV and TBX."""

import csv
import io
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import regex

from dragoman.model.errors import UserError
from dragoman.model.languages import base_language
from dragoman.model.text.letters import capitalise, fold_case, is_blankless, upper_case, words_of
from dragoman.services.texts.lemmas import lemma
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
ACRONYM = regex.compile(r"(?<![\p{L}\p{M}\p{N}])\p{Lu}[\p{Lu}\p{M}\p{N}]+(?![\p{L}\p{M}\p{N}])")
_HANGUL = regex.compile(r"\p{Hangul}")
# Korean particles at the end of a word: topic, subject, object, place, company and their kin.
_PARTICLES = (
    "은 는 이 가 을 를 의 에 에서 에게 에게서 한테 께 께서 와 과 로 으로 도 만 까지 부터 처럼 보다 나 이나 랑 이랑 "
    "마다 조차 밖에 라고 이라고 이다 입니다"
)
_PARTICLE = regex.compile(rf"(?<=\p{{Hangul}})(?:{_PARTICLES.replace(' ', '|')})(?!\p{{L}})")
_JOINT = regex.compile(r"[\s\u00ad-]+")


class Found(NamedTuple):
    """A term in a text."""

    start: int
    end: int
    target: str  # its translation, with the capitals of the text
    exact: bool  # False: the text has another form of the term


class Word(NamedTuple):
    """A word of a text."""

    start: int
    end: int
    text: str


class Spot(NamedTuple):
    """Where a term stands in a text."""

    term: str
    start: int
    end: int
    exact: bool


@dataclass(frozen=True, eq=False)
class Glossary:
    """Source terms and how they are translated. A term is found as whole words, in any case and in any inflection."""

    terms: Mapping[str, str] = field(default_factory=dict)

    def find(self, text: str, language: str, target: str = "") -> Iterator[Found]:
        """Yields the places of terms in a text of this language, apart from each other, and what they become there."""
        index = _index(self, language)
        words = list(_words(text))
        ends = {end for _, end, _ in words} | {match.start() for match in _PARTICLE.finditer(text)}
        place = 0
        for number, (start, _, word) in enumerate(words):
            if start < place:
                continue
            following = words[number : number + MOST_WORDS]
            terms = index.get(_key(word, language), ())
            spans = (self._exact(term, text, start, place, ends, language) for term in terms)
            found = next(filter(None, spans), None)
            found = found or next(filter(None, (self._form(term, text, following, language) for term in terms)), None)
            if found:
                term, start, end, exact = found
                yield Found(start, end, _in_case(self.terms[term], term, text[start:end], target), exact)
                place = end

    def _exact(self, term: str, text: str, at: int, place: int, ends: Container[int], language: str) -> Spot | None:
        """Returns the term's place if it is there as it is written; a word in capitals is one in capitals alone."""
        first = WORD.search(term)
        start = at - (first.start() if first else 0)
        end = start + len(term)
        found = text[start:end]
        if start < place or not (end in ends or WORD.match(found[-1:]) is None):
            return None
        if fold_case(found, language) != fold_case(term, language):
            return None
        capitals = all(word.group() == found[slice(*word.span())] for word in ACRONYM.finditer(term))
        return Spot(term, start, end, True) if capitals else None

    def _form(self, term: str, text: str, words: Sequence[Word], language: str) -> Spot | None:
        """Returns the term's place if it is there with other endings."""
        wanted = WORD.findall(term)
        given = words[: len(wanted)]
        if len(given) < len(wanted) or _by_sign(wanted[0]) or _JOINT.sub("", WORD.sub("", term)):
            return None
        if not all(_JOINT.fullmatch(text[before.end : after.start]) for before, after in pairwise(given)):
            return None
        if all(_is_form(word.text, form, language) for word, form in zip(given, wanted, strict=True)):
            return Spot(term, given[0].start, given[-1].end, False)
        return None

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


def _in_case(target: str, term: str, found: str, language: str) -> str:
    """Returns a term's translation with the capitals that the text gives the term."""
    if found.isupper() and not term.isupper() and len(found) > 1:
        return upper_case(target, language)
    if found[:1].isupper() and term[:1].islower():
        return capitalise(target, language)
    return target


def _words(text: str) -> Iterator[Word]:
    """Yields the words of a text: by ICU's dictionaries where there are no blanks."""
    for match in WORD.finditer(text):
        place = match.start()
        for part in words_of(match.group()):
            yield Word(place, place + len(part), part)
            place += len(part)


def _by_sign(word: str) -> bool:
    """Returns True for words that stand as they are in the text, without blanks around them or before particles."""
    return is_blankless(word[0]) or _HANGUL.match(word) is not None


def _key(word: str, language: str) -> str:
    """Returns what the terms are indexed by: the base form of a word, or its first sign."""
    return word[0] if _by_sign(word) else lemma(word, language)


def _is_form(word: str, wanted: str, language: str) -> bool:
    """Returns True if a word is an inflected form of the word `wanted` of a term."""
    if ACRONYM.fullmatch(wanted):
        return word in (wanted, f"{wanted}s")
    return lemma(word, language) == lemma(wanted, language)


@lru_cache(64)
def _index(glossary: Glossary, language: str) -> Mapping[str, Sequence[str]]:
    """Returns the terms by the key of their first word, the longest first."""
    found: dict[str, list[str]] = {}
    for term in sorted(glossary.terms, key=len, reverse=True):
        if word := WORD.search(term):
            key = _key(next(_words(word.group())).text, language)
            found.setdefault(key, []).append(term)
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
