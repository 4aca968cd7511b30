"""A glossary's entries as text: TSV, CSV, whose columns of languages may be missing, or TBX; dictionaries in forms."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dragoman.model.errors import UserError
from dragoman.services.texts.glossary import LONGEST, MOST_TERMS, read_tbx

MOST_LINES = 2 * MOST_TERMS
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
COLUMNS = (2, 4)  # source, target; CSV: also the languages of both
IN_FORM = re.compile(r"dictionaries\[(?P<number>[0-9]{1,3})\]\.(?P<field>\w+)")  # as deepl-node sends them


def read_entries(text: str, form: str, source_language: str, target_language: str) -> dict[str, str]:
    """Returns the terms, in the order of the lines; empty lines are left out. Of TBX those of the languages are read.

    Raises ValueError: a line is no pair of terms, a term is empty, too long, has a control character or is there twice,
    there are too many, or none.
    """
    terms: dict[str, str] = {}
    if form != "tbx" and text.count("\n") > MOST_LINES:  # before millions of empty ones are looked at
        raise ValueError(f"there are more than {MOST_LINES:,} lines")
    if form == "csv":
        rows = _read_csv(text)
    elif form == "tbx":
        rows = map(list, _read_tbx(text, source_language, target_language))
    else:
        rows = (line.rstrip("\r").split("\t") for line in text.split("\n"))
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) != COLUMNS[0] and not (form == "csv" and len(cells) == COLUMNS[1]):
            raise ValueError(f"line {number} has {len(cells)} columns, 2 are expected: source and target")
        source, target = cells[:2]
        if not source or not target:
            raise ValueError(f"line {number} has an empty term")
        if len(source) > LONGEST:
            raise ValueError(f"line {number} has a term of {len(source):,} characters; at most {LONGEST:,} are allowed")
        if CONTROL.search(source + target):
            raise ValueError(f"line {number} has a control character")
        if source in terms:
            raise ValueError(f"line {number} repeats the source term of an earlier line")
        terms[source] = target
        if len(terms) > MOST_TERMS:
            raise ValueError(f"there are more than {MOST_TERMS:,} terms")
    if not terms:
        raise ValueError("there are no entries")
    return terms


def write_tsv(terms: Mapping[str, str]) -> str:
    """Returns the terms as lines of source, tab, target."""
    return "\n".join(f"{source}\t{target}" for source, target in terms.items())


def _read_tbx(text: str, source: str, target: str) -> list[tuple[str, str]]:
    try:
        return read_tbx(text.encode(), source, target, "entries")
    except UserError as problem:
        raise ValueError(str(problem)) from None


def with_list(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters with the dictionaries of a form (`dictionaries[0].entries`) as a list."""
    entries: dict[int, dict[str, Any]] = {}
    others = {}
    for name, value in values.items():
        if parts := IN_FORM.fullmatch(name):
            entries.setdefault(int(parts["number"]), {})[parts["field"]] = value
        else:
            others[name] = value
    return {**others, "dictionaries": [entries[number] for number in sorted(entries)]} if entries else others


def _read_csv(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(text), strict=True)
    except csv.Error as problem:
        raise ValueError(f"not CSV: {problem}") from None
