"""`--json`: the rows and records of a command, one JSON object a line, in place of its text."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar

OPTION = "--json"
_wanted = ContextVar("json", default=False)


@contextlib.contextmanager
def as_json(is_wanted: bool = True) -> Iterator[None]:
    """Makes `show` print JSON within the block."""
    before = _wanted.set(is_wanted)
    try:
        yield
    finally:
        _wanted.reset(before)


def wants_json() -> bool:
    """Returns True if the command line has `--json`."""
    return _wanted.get()


def show(records: Iterable[object], text: Callable[[], str]) -> None:
    """Prints the records as JSON, one a line, or the text, which is made only then."""
    if not _wanted.get():
        print(text(), flush=True)
        return
    for record in records:
        print(json.dumps(record, ensure_ascii=False), flush=True)
