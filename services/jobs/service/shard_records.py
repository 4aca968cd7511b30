"""The records of shards as text: some in a row, or those that hold a text. Loads no torch and maps no file."""

import json
import re
import threading
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from fastapi import HTTPException

from dragoman.model.shards.pieces import PieceReader
from dragoman.model.shards.reader import Chunk
from dragoman.model.shards.remote import checked_name
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizers import load_pair
from dragoman.services.jobs.service.shard_folders import LARGEST, Folder, check_own

FOUND = 50  # records of a search
RECORDS, SECONDS = 200_000, 3.0  # that a search looks at
AT_ONCE = 2  # searches
DECODED = 512  # records between two looks at the clock
_searches = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True)
class Record:
    """A record as the network sees it; `target` is empty for text of one language."""

    number: int  # from 0, over the split
    source: str
    target: str


@dataclass(frozen=True)
class Hits:
    """The result of a search: where it began and how many records it looked at.

    `following` is the record at which another search goes on; None if it reached the end of the split.
    """

    begin: int
    looked: int
    records: list[Record] = field(default_factory=list)
    following: int | None = None
    limit: str = ""  # the reason why it stopped early


def read_records(folder: Folder, split: str, first: int, count: int) -> list[Record]:
    """Returns `count` records of a split from number `first` on; fewer at its end.

    Raises:
        UserError: there is no such split, or a file is missing, is a link, or differs from the manifest.
    """
    reader, pair = _open(folder, split)
    found: list[Record] = []
    for part in _parts(reader, first, count):
        found += _decode(pair, part)
        if len(found) >= count:
            break
    return found[:count]


def search_records(folder: Folder, split: str, text: str, begin: int) -> Hits:
    """Returns records of a split from number `begin` on of which a side holds `text`; case does not count.

    Raises:
        UserError: as `read_records`.
        HTTPException: 429, as many searches run as may.
    """
    if not _searches.acquire(blocking=False):
        raise HTTPException(429, f"{AT_ONCE} searches run already; try again in some seconds", {"Retry-After": "3"})
    try:
        return _search(folder, split, text, begin)
    finally:
        _searches.release()


def pattern_of(text: str, form: str = "NFC") -> re.Pattern[str]:
    """Returns the pattern that a search looks for; `form` is the normalisation of the shards."""
    forms = ("NFC", "NFD", "NFKC", "NFKD")
    return re.compile(re.escape(unicodedata.normalize(form, text) if form in forms else text), re.IGNORECASE)  # type: ignore[arg-type]  # one of them


def _search(folder: Folder, split: str, text: str, begin: int) -> Hits:
    until = time.monotonic() + SECONDS
    reader, pair = _open(folder, split)
    pattern = pattern_of(text, reader.manifest.normalisation)
    found: list[Record] = []
    after = begin
    for part in _parts(reader, begin, DECODED):
        for record in _decode(pair, part):
            if pattern.search(record.source) or pattern.search(record.target):
                found.append(record)
                if len(found) == FOUND:
                    after = record.number + 1
                    return _ended(reader, begin, after, found, f"{FOUND} hits")
        after = part.first_id + part.records
        if after - begin >= RECORDS:
            return _ended(reader, begin, after, found, f"{RECORDS:,} records")
        if time.monotonic() > until:
            return _ended(reader, begin, after, found, f"{SECONDS:g} seconds")
    return Hits(begin, max(0, after - begin), found)


def _ended(reader: PieceReader, begin: int, after: int, found: list[Record], limit: str) -> Hits:
    if after >= reader.records:
        return Hits(begin, after - begin, found)
    return Hits(begin, after - begin, found, after, limit)


def _parts(reader: PieceReader, first: int, count: int) -> Iterator[Chunk]:
    """Yields the records from number `first` on, at most `count` at a time."""
    if not reader.chunks or first >= reader.records:
        return
    for index in range(max(0, bisect_right(reader.first_ids, first) - 1), reader.chunks):
        chunk = reader.chunk(index)
        for begin in range(max(0, first - chunk.first_id), chunk.records, count):
            yield chunk.part(begin, min(begin + count, chunk.records))


def _decode(pair: TokenizerPair, part: Chunk) -> Iterator[Record]:
    rows = list(part.rows())
    sources = pair.source.decode([source for source, _ in rows])
    targets = pair.target.decode([target for _, target in rows]) if len(part.target) else [""] * len(rows)
    return (
        Record(number, source, target)
        for number, source, target in zip(
            range(part.first_id, part.first_id + len(rows)), sources, targets, strict=True
        )
    )


def _open(folder: Folder, split: str) -> tuple[PieceReader, TokenizerPair]:
    reader = PieceReader(folder.path, split)
    for entry in reader.manifest.tokenizer.get("files", []):
        check_own(checked_name(folder.path, str(entry.get("file", ""))), LARGEST)
    return reader, _pair(folder.path, json.dumps(reader.manifest.tokenizer, sort_keys=True))


@lru_cache(maxsize=8)
def _pair(path: Path, record: str) -> TokenizerPair:
    return load_pair(path, json.loads(record))
