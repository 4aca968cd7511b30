"""The cleaning task of text: turns a block into records, normalised, within the maximum length and not blank.

`corpus.blank=keep` also keeps blank records."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.pipelines.corpus.clean.block import block_path, save_block
from dragoman.pipelines.corpus.clean.cleaning import normalise_side
from dragoman.pipelines.corpus.clean.keys import Keys, text_keys
from dragoman.pipelines.corpus.read.records import block_bytes, decoded_lines
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.read.text_staging import place_of
from dragoman.pipelines.corpus.settings import CleanConfig, OnError

# Shorter records ("Yes." or "Chapter I") occur in any text, so finding them in the test set proves no leak.
TELLING_WORDS = 8


@dataclass(frozen=True)
class TextCleaningTask:
    """The inputs of cleaning a block of text."""

    block: Block
    clean: CleanConfig
    on_error: OnError
    encodings: tuple[str, ...]
    paragraphs: bool  # True: a record is the text between blank lines; False: a line
    blank: bool  # True: blank lines are records too
    scratch: Path  # the folder with the index of the block's file
    folder: Path  # of clean blocks


def clean_text_block(task: TextCleaningTask) -> int:
    """Cleans one block unless that was done before; returns the block's number."""
    path = block_path(task.folder, task.block.number)
    if path.exists():
        return task.block.number
    bad: dict[int, str] = {}
    changed: Counter[str] = Counter()

    def place(line: int) -> str:
        return place_of(task.block, line, task.scratch)

    data = block_bytes(task.block)
    raw = decoded_lines(data, task.block, task.encodings, task.on_error, bad, changed, place)
    changed["nul"] += sum("\0" in line for line in raw)
    lines = normalise_side(raw, task.clean.form, changed)
    dropped = Counter(bad.values())
    if not task.paragraphs and not task.blank:
        dropped["blank"] += sum(not line for line in lines) - len(bad)
    records: list[str] = []
    numbers: list[int] = []
    for number, text in _texts(lines, bad, task.paragraphs, task.blank):
        pieces = list(cut(text, task.clean.max_words, task.clean.max_chars))
        changed["cut"] += len(pieces) > 1
        records += pieces
        numbers += [number] * len(pieces)
    facts = {
        "lines": task.block.lines,
        "records": len(records),
        "characters": sum(map(len, records)),
        "dropped": {rule: number for rule, number in sorted(dropped.items()) if number},
        "changed": dict(sorted(changed.items())),
    }
    keys = text_keys(records)
    save_block(path, ["\n".join(records)], np.array(numbers, np.int32), _leak_keys(records, keys), keys, facts)
    return task.block.number


def cut(text: str, max_words: int, max_chars: int) -> Iterator[str]:
    """Splits a normalised text into pieces of at most so many words and characters; 0 means no limit.

    No word is lost. Pieces end at a space; a single word longer than `max_chars` is split at the limit.
    """
    if max_words and text.count(" ") >= max_words:
        words = text.split(" ")
        pieces: Iterable[str] = (
            " ".join(words[first : first + max_words]) for first in range(0, len(words), max_words)
        )
    else:
        pieces = (text,)
    for piece in pieces:
        start = 0
        while max_chars and len(piece) - start > max_chars:
            space = piece.rfind(" ", start + 1, start + max_chars + 1)
            stop = space if space > 0 else start + max_chars
            yield piece[start:stop]
            start = stop + (space > 0)
        yield piece[start:]


def _texts(lines: Iterable[str], bad: dict[int, str], paragraphs: bool, blank: bool) -> Iterator[tuple[int, str]]:
    """Yields (number of the first line, text) of every line with text, or of every run of lines without a blank one.

    `blank`: of every readable line, with text or without. An unreadable line does not end a paragraph.
    """
    if not paragraphs:
        yield from ((number, line) for number, line in enumerate(lines) if line or (blank and number not in bad))
        return
    first = 0
    waiting: list[str] = []
    for number, line in enumerate(lines):
        if line:
            first = first if waiting else number
            waiting.append(line)
        elif waiting and number not in bad:
            yield first, " ".join(waiting)
            waiting = []
    if waiting:
        yield first, " ".join(waiting)


def _leak_keys(records: list[str], keys: Keys) -> Keys:
    """Returns the keys that compare training text with held-out text: 0 for records too short to prove a leak."""
    long = np.fromiter((record.count(" ") >= TELLING_WORDS - 1 for record in records), bool, len(records))
    telling: Keys = np.where(long, keys, np.uint64(0))
    return telling
