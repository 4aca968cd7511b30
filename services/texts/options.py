"""Options of a translation that a client can set, and glossaries."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import regex

from model.errors import UserError

Format = Literal["text", "html", "xml", "markdown"]
FORMATS: tuple[Format, ...] = get_args(Format)
MOST_TERMS = 10_000
WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


@dataclass(frozen=True, eq=False)
class Glossary:
    """Source terms and how they are translated. A term is found as a whole word, in any case."""

    terms: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def index(self) -> Mapping[str, Sequence[str]]:
        """Returns the terms by their first word in lower case, the longest first."""
        found: dict[str, list[str]] = {}
        for term in sorted(self.terms, key=len, reverse=True):
            if word := WORD.search(term):
                found.setdefault(word.group().lower(), []).append(term)
        return found

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yields the places of terms in a text, apart from each other, and what they become there."""
        place = 0
        for word in WORD.finditer(text):
            if word.start() < place:
                continue
            for term in self.index.get(word.group().lower(), ()):
                first = WORD.search(term)
                start = word.start() - (first.start() if first else 0)
                end = start + len(term)
                whole = not text[end - 1 : end].isalnum() or not text[end : end + 1].isalnum()
                if start >= place and whole and text[start:end].lower() == term.lower():
                    yield start, end, _in_case(self.terms[term], term, text[start:end])
                    place = end
                    break

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


def read_glossary(path: str, key: str) -> Glossary:
    """Returns the glossary in a file of lines `source TAB target` (.csv: with a comma); `key` names the setting.

    Raises:
        UserError: the file cannot be read, or a line has no two columns.
    """
    comma = Path(path).suffix.lower() == ".csv"
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(_columns(file, "," if comma else "\t", f"{key}={path}"))
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"{key}={path} cannot be read: {problem}") from None
    return Glossary.of(rows, f"{key}={path}")


def _columns(file: Iterable[str], delimiter: str, where: str) -> Iterator[tuple[str, str]]:
    rows = csv.reader(file) if delimiter == "," else csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    for number, row in enumerate(rows, 1):
        if not any(row):
            continue
        if len(row) < 2:
            raise UserError(f"{where}, line {number}: {delimiter.join(row)!r} has no two columns")
        yield row[0], row[1]


@dataclass(frozen=True)
class TextOptions:
    """The options of every dialect. The tags are those of DeepL's parameters of the same names."""

    format: Format = "text"
    ignore_tags: tuple[str, ...] = ()  # elements that are not translated
    splitting_tags: tuple[str, ...] = ()  # elements that begin a new sentence
    non_splitting_tags: tuple[str, ...] = ()  # elements that stand inside a sentence
    outline_detection: bool = True  # find splitting tags by the document's structure (XML)
    split_sentences: Literal["on", "off", "nonewlines"] = "on"  # nonewlines: a line feed ends no sentence
    glossary: Glossary | None = None
