"""Translations that users send: a JSONL file that `dragoman shard corpus=jsonl` reads as a corpus."""

import fcntl
import os
from pathlib import Path

import orjson


def append(path: Path, source: str, target: str, text: str, translation: str, key: str) -> None:
    """Adds a line to the file: the text and its translation by language, and the name of the key that gave it.

    The line is whole or not there, whoever else writes. Raises OSError: it cannot be written.
    """
    line = orjson.dumps({source: text, target: translation, "key": key}, option=orjson.OPT_APPEND_NEWLINE)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        try:
            if os.write(file, line) != len(line):
                raise OSError(f"{path}: the disk is full")
        except OSError:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)
