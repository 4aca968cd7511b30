"""The cleaning task: one block of lines in, one file of clean pairs, or of a text's records, with their hashes out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.model.text.text_keys import Keys, folded_keys, pair_keys, text_keys
from dragoman.pipelines.corpus.clean.block import block_path, save_block
from dragoman.pipelines.corpus.clean.cleaning import clean, normalise_side
from dragoman.pipelines.corpus.read.records import decoded_lines, read_records
from dragoman.pipelines.corpus.read.sources import TextForm
from dragoman.pipelines.corpus.read.staging import Block
from dragoman.pipelines.corpus.settings import CleanConfig, OnError

# Shorter records ("Yes." or "Chapter I") occur in any text, so finding them in the test set proves no leak.
TELLING_WORDS = 8


@dataclass(frozen=True)
class CleaningTask:
    """The inputs of cleaning one block."""

    block: Block
    clean: CleanConfig
    on_error: OnError
    folder: Path  # of clean blocks
    encodings: tuple[str, ...] = ("utf-8",)
    near: bool = True  # pairs; True: hash both sides for the leak guard; False: only the source
    languages: tuple[str, ...] = ()  # of the sides


def clean_block(task: CleaningTask) -> int:
    """Cleans one block unless that was done before; returns the block's number."""
    path = block_path(task.folder, task.block.number)
    if not path.exists():
        form = task.block.source.form
        _clean_pairs(task, path) if form is None else _clean_text(task, form, path)
    return task.block.number


def _clean_pairs(task: CleaningTask, path: Path) -> None:
    records = read_records(task.block, task.on_error, task.encodings)
    held_out = task.block.source.split != "train"
    cleaned = clean(records.source, records.target, records.bad, task.clean, held_out, task.languages)
    rows = np.flatnonzero(cleaned.kept).tolist()
    source, target = ("\n".join(map(side.__getitem__, rows)) for side in (cleaned.source, cleaned.target))
    facts = {
        "dropped": dict(sorted(cleaned.dropped.items())),
        "changed": dict(sorted((cleaned.changed + records.counts).items())),
    }
    folded = source.casefold()
    source_key = text_keys(folded.split("\n")[: len(rows)])  # no lines have no keys
    both = zip(folded_keys(folded), folded_keys(target.casefold()), strict=True) if task.near else ()
    leak = [key[: len(rows)] for sides in both for key in sides]
    pair_key = pair_keys(source.encode(), target.encode())[: len(rows)]
    save_block(path, [source, target], source_key, pair_key, facts, leak)


def _clean_text(task: CleaningTask, form: TextForm, path: Path) -> None:
    """Turns a block of text into records: normalised, within the maximum length and not blank unless `form.blank`."""
    bad: dict[int, str] = {}
    changed: Counter[str] = Counter()
    raw = decoded_lines(task.block, 0, task.encodings, task.on_error, bad, changed)
    changed["nul"] += sum("\0" in line for line in raw)
    lines = normalise_side(raw, task.clean.form, changed)
    dropped = Counter(bad.values())
    if not form.paragraphs and not form.blank:
        dropped["blank"] += sum(not line for line in lines) - len(bad)
    records: list[str] = []
    for text in texts_of(lines, bad, form):
        pieces = list(cut(text, task.clean.max_words, task.clean.max_chars))
        changed["cut"] += len(pieces) > 1
        records += pieces
    facts = {
        "records": len(records),
        "characters": sum(map(len, records)),
        "dropped": {rule: number for rule, number in sorted(dropped.items()) if number},
        "changed": dict(sorted(changed.items())),
    }
    keys = text_keys(records)
    save_block(path, ["\n".join(records)], _leak_keys(records, keys), keys, facts)


def _leak_keys(records: list[str], keys: Keys) -> Keys:
    """Returns the keys that compare training text with held-out text: 0 for records too short to prove a leak."""
    long = np.fromiter((record.count(" ") >= TELLING_WORDS - 1 for record in records), bool, len(records))
    telling: Keys = np.where(long, keys, np.uint64(0))
    return telling


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


def texts_of(lines: Iterable[str], bad: Mapping[int, str], form: TextForm) -> Iterator[str]:
    """Yields every line with text, or with `form.paragraphs` every run of lines without a blank one, as one text.

    With `form.blank` every readable line, with text or without. An unreadable line does not end a paragraph.
    """
    if not form.paragraphs:
        yield from (line for number, line in enumerate(lines) if line or (form.blank and number not in bad))
        return
    waiting: list[str] = []
    for number, line in enumerate(lines):
        if line:
            waiting.append(line)
        elif waiting and number not in bad:
            yield " ".join(waiting)
            waiting = []
    if waiting:
        yield " ".join(waiting)
