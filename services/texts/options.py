"""Options of a translation that a client can set."""

from dataclasses import dataclass
from typing import Literal, get_args

from dragoman.services.texts.glossary import Glossary

Format = Literal["text", "html", "xml", "markdown"]
SplitSentences = Literal["on", "off", "newlines", "nonewlines"]  # on: a line feed ends one that does not go on
FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True)
class TextOptions:
    """The options of every dialect. The tags are those of DeepL's parameters of the same names."""

    format: Format = "text"
    ignore_tags: tuple[str, ...] = ()  # elements that are not translated
    splitting_tags: tuple[str, ...] = ()  # elements that begin a new sentence
    non_splitting_tags: tuple[str, ...] = ()  # elements that stand inside a sentence
    outline_detection: bool = True  # find splitting tags by the document's structure (XML)
    split_sentences: SplitSentences = "on"
    glossary: Glossary | None = None
