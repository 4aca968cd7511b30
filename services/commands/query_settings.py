"""The section of `dragoman neighbours` and `analogy`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from dragoman.model.ranges import Count, Range, Whole
from dragoman.model.word_vectors.embeddings import Method
from dragoman.services.models.vectors_source import VectorsSource


@dataclass
class QueryConfig(VectorsSource):
    """The questions, the word vectors, and the format of answers."""

    sentence: str | None = None  # neighbours: the text in which the words are meant, also as query.in=TEXT
    texts: str | None = None  # with a sentence: lines or a directory of shards, whose words may be neighbours
    lines: Count = 2000  # of `texts`, from their beginning
    layer: Annotated[int, Range()] | None = None  # with a sentence: whose states, as embed.layer; null: the last
    picture: str | None = None  # with a sentence: a file for the word's uses as points; null: none
    k: Count = 10  # words per answer
    method: Method = "3cosadd"  # for analogies
    restrict: Whole = 0  # answers are among this many most frequent words; 0: all
    input: str | None = None  # a file of words, if the command line has none; null: standard input
    format: Literal["text", "json"] = "text"
    on_error: Literal["raise", "skip"] = "raise"
