"""Glossaries: source terms and how they are translated, read from TSV, CSV and TBX."""

import csv
import io
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import regex
from lxml import etree

from dragoman.model.errors import UserError
from dragoman.model.languages import is_language, nearest
from dragoman.model.text.letters import capitalise, is_blankless, upper_case, words_of
from dragoman.services.texts.casing import lemma, small_letters

MOST_TERMS = 10_000
MOST_WORDS = 12  # of a term that is found in other forms
SAME = 16  # terms that differ only in capitals, endings or what stands before the first word
LONGEST = 1024  # characters of a term
Key = TypeVar("Key")
WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
ACRONYM = regex.compile(r"(?<![\p{L}\p{M}\p{N}])\p{Lu}[\p{Lu}\p{M}\p{N}]+(?![\p{L}\p{M}\p{N}])")
_HANGUL = regex.compile(r"\p{Hangul}")
# Korean particles at the end of a word: topic, subject, object, place, company and their kin.
_PARTICLES = (
    "은 는 이 가 을 를 의 에 에서 에게 에게서 한테 께 께서 와 과 로 으로 도 만 까지 부터 처럼 보다 나 이나 랑 이랑 "
    "마다 조차 밖에 라고 이라고 이다 입니다"
)
_PARTICLE = regex.compile(rf"(?<=\p{{Hangul}})(?:{_PARTICLES.replace(' ', '|')})(?!\p{{L}})")
_JOINT = regex.compile(r"[\s\u00ad-]+")
# Of TBX (ISO 30042, versions 2 and 3), which is what terminology managers exchange.
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
ENTRIES, SECTIONS, TERMS = ("termEntry", "conceptEntry"), ("langSet", "langSec"), ("tig", "ntig", "termSec")
DEPRECATED = ("deprecatedTerm-admn-sts", "supersededTerm-admn-sts")


class TermMatch(NamedTuple):
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

    def find(self, text: str, language: str, target: str = "") -> Iterator[TermMatch]:
        """Yields the places of terms in a text of this language, apart from each other, and what they become there."""
        index, small, words = _index(self, language), small_letters(text, language), list(_words(text))
        ends = {end for _, end, _ in words} | {match.start() for match in _PARTICLE.finditer(text)}
        place = 0
        for number, (start, _, _) in enumerate(words):
            if start < place:
                continue
            entry = index.exact(text, small, start, place, ends) or index.form(text, words, number)
            if entry:
                term, start, end, exact = entry
                yield TermMatch(start, end, _in_case(self.terms[term], term, text[start:end], target), exact)
                place = end

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]], where: str) -> "Glossary":
        """Returns the glossary of (source term, target term); `where` opens the messages.

        Raises UserError: an empty term or one that is too long, two translations of one term, or too many terms.
        """
        terms: dict[str, str] = {}
        for number, (source, target) in enumerate(rows, 1):
            source, target = source.strip(), target.strip()
            if not source or not target:
                raise UserError(f"{where}, entry {number}: a term is empty")
            if len(source) > LONGEST:
                raise UserError(f"{where}, entry {number}: a term of {len(source):,} characters; at most {LONGEST:,}")
            if terms.setdefault(source, target) != target:
                raise UserError(f"{where}, entry {number}: {source!r} has two translations")
        if len(terms) > MOST_TERMS:
            raise UserError(f"{where}: {len(terms):,} terms; at most {MOST_TERMS:,} are allowed")
        return cls(terms)


def _in_case(target: str, term: str, spelling: str, language: str) -> str:
    """Returns a term's translation with the capitals that the text gives the term."""
    if spelling.isupper() and not term.isupper() and len(spelling) > 1:
        return upper_case(target, language)
    if spelling[:1].isupper() and term[:1].islower():
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


def _is_form(word: str, spelling: str) -> bool:
    """Returns True if a word with the base form of the word `spelling` may stand for it: an acronym is one in capitals
    alone."""
    return not ACRONYM.fullmatch(spelling) or word in (spelling, f"{spelling}s")


class Index:
    """The terms of a glossary as a language looks them up: a place in a text costs the same for any number of terms.

    Terms that differ only in capitals and in what stands before their first word, or only in endings, are looked at
    one after the other, and only so many of them (SAME).
    """

    def __init__(self, terms: Iterable[str], language: str) -> None:
        self.language = language
        self._tails: dict[str, list[str]] = {}  # terms by their small letters from the first word on
        self._forms: dict[tuple[str, ...], list[str]] = {}  # terms by the base forms of their words
        self._sizes: dict[str, list[int]] = {}  # numbers of words, the largest first, by the first one's base form
        for term in sorted(terms, key=len, reverse=True):
            if not (first := WORD.search(term)):
                continue
            _add(self._tails, small_letters(term, language)[first.start() :], term)
            words = WORD.findall(term)
            if len(words) <= MOST_WORDS and not _by_sign(words[0]) and not _JOINT.sub("", WORD.sub("", term)):
                bases = tuple(lemma(word, language) for word in words)
                _add(self._forms, bases, term)
                if len(words) not in (sizes := self._sizes.setdefault(bases[0], [])):
                    sizes.append(len(words))
        for sizes in self._sizes.values():
            sizes.sort(reverse=True)
        self._sorted = sorted(self._tails)
        self._longest = max(map(len, self._sorted), default=0)
        self._inside: list[int] = []  # by tail: the longest other one that it begins with; -1: none
        open_ones: list[int] = []
        for number, tail in enumerate(self._sorted):
            while open_ones and not tail.startswith(self._sorted[open_ones[-1]]):
                open_ones.pop()
            self._inside.append(open_ones[-1] if open_ones else -1)
            open_ones.append(number)

    def exact(self, text: str, small: str, at: int, place: int, ends: Container[int]) -> Spot | None:
        """Returns the longest term that is there as it is written; a word in capitals is one in capitals alone."""
        # what the text begins with here is the last tail that does not sort after it, or one inside of that
        number = bisect_right(self._sorted, small[at : at + self._longest]) - 1
        while number >= 0:
            tail = self._sorted[number]
            end = at + len(tail)
            if small.startswith(tail, at) and (end in ends or not WORD.match(tail[-1])):
                for term in sorted(self._tails[tail], key=lambda term: term != text[end - len(term) : end]):
                    start = end - len(term)
                    if start < place or small_letters(term, self.language)[: at - start] != small[start:at]:
                        continue
                    if all(word.group() == text[start:end][slice(*word.span())] for word in ACRONYM.finditer(term)):
                        return Spot(term, start, end, True)
            number = self._inside[number]
        return None

    def form(self, text: str, words: Sequence[Word], at: int) -> Spot | None:
        """Returns the longest term whose words are there with other endings."""
        first = words[at].text
        for size in () if _by_sign(first) else self._sizes.get(lemma(first, self.language), ()):
            text_words = words[at : at + size]
            terms = self._forms.get(tuple(lemma(word.text, self.language) for word in text_words), ())
            if not all(_JOINT.fullmatch(text[before.end : after.start]) for before, after in pairwise(text_words)):
                continue
            for term in terms:
                if all(_is_form(word.text, form) for word, form in zip(text_words, WORD.findall(term), strict=True)):
                    return Spot(term, text_words[0].start, text_words[-1].end, False)
        return None


def _add(keys: dict[Key, list[str]], key: Key, term: str) -> None:
    if len(same := keys.setdefault(key, [])) < SAME:
        same.append(term)


@lru_cache(16)
def _index(glossary: Glossary, language: str) -> Index:
    return _index_of(tuple(glossary.terms), language)


_index_of = lru_cache(16)(Index)  # by the terms: those of `serve.glossary` come with every request


def read_glossary(path: str, key: str, source: str, target: str) -> Glossary:
    """Returns the glossary in a file of lines `source TAB target` (.csv: with a comma), or the terms of these languages
    in a .tbx file; `key` names the setting.

    Raises UserError: the file cannot be read, a line has no two columns, or no term is of these languages.
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


def read_tbx(content: bytes, source: str, target: str, where: str) -> list[tuple[str, str]]:
    """Returns the terms of a pair of languages, each with the first translation that is not deprecated.

    Raises UserError: it is no TBX, or has no term of these languages; `where` opens the message.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as problem:
        raise UserError(f"{where}: is no TBX file ({problem.msg})") from None
    by_source: dict[str, str] = {}
    languages: dict[str, None] = {}
    for entry in (element for element in root.iter(etree.Element) if _name(element) in ENTRIES):
        terms = {
            element.get(LANGUAGE, ""): list(_terms(element))
            for element in entry
            if _name(element) in SECTIONS and is_language(element.get(LANGUAGE, ""))
        }
        languages |= dict.fromkeys(terms)
        here, there = (nearest(code, tuple(terms)) for code in (source, target))
        if here and there and terms[there]:
            for term in terms[here]:
                by_source.setdefault(term, terms[there][0])
    if not by_source:
        codes = f"; its languages: {', '.join(languages)}" if languages else ""
        raise UserError(f"{where}: has no term from {source} to {target}{codes}")
    return list(by_source.items())


def _terms(section: Any) -> Iterator[str]:
    """Yields the terms of a language in an entry."""
    for group in (element for element in section.iter(etree.Element) if _name(element) in TERMS):
        inside = list(group.iter(etree.Element))
        if any((element.text or "").strip() in DEPRECATED for element in inside if _name(element) == "termNote"):
            continue
        for element in inside:
            if _name(element) == "term" and (text := " ".join("".join(element.itertext()).split())):
                yield text


def _name(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
