"""The page's words for what an answer reports."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dragoman.model.languages import language_name

HOW = {
    "copied": "copied",
    "stand-in": "a word stood for it",
    "cut": "the sentence was cut there",
    "aligned": "put beside its words by attention",
    "guessed": "put beside its words by a guess",
    "inflected": "with another ending",
    "kept": "around its sentence",
}
KINDS = {"placeholders": "placeholder", "tags": "tag", "terms": "term", "words": "unknown word"}


class Kept(NamedTuple):
    """Something that came back unchanged, how, and how often."""

    text: str
    kind: str
    how: str
    times: int
    source: str = ""  # of a term


def language_text(code: str) -> str:
    """Returns a language's name; of none a dash."""
    return language_name(code) if code else "–"


def kept_entries(report: Mapping[str, Any]) -> Sequence[Kept]:
    """Returns what a report says was kept; equal entries are counted."""
    entries: dict[tuple[str, str, str, str], int] = {}
    for name, kind in KINDS.items():
        for entry in report.get(name, ()):
            how = HOW.get(entry["how"], entry["how"])
            if entry.get("form") == "base":
                how += ", in its base form"
            if entry.get("article"):
                how += f", after “{entry['article']}”"
            mark = name == "words" and not any(map(str.isalnum, entry["text"]))
            key = (entry["text"], "mark" if mark else entry.get("kind", kind), how, entry.get("source", ""))
            entries[key] = entries.get(key, 0) + 1
    return [Kept(*key[:3], times, key[3]) for key, times in entries.items()]
