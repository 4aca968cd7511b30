"""The page of a log: some numbered lines at a time with their times and colours, or the lines that hold a text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dragoman.model.untrusted import open_regular
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.log_times import read_times
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.log_colours import coloured
from dragoman.services.jobs.service.log_search import Found, search

LINES = 500  # of a page
BYTES = 8 << 20  # read for a page
LONGEST = 4000  # characters shown of a line
CHUNK = 1 << 18  # bytes of a download at a time


@dataclass(frozen=True)
class Line:
    """A line as the template shows it; `at` is None where nobody noted the time."""

    number: int
    html: Markup
    at: float | None = None


def log_page(site: Site, job: Job, attempt: int, line: int | None, text: str, begin: int = 1) -> dict[str, Any]:
    """Returns what the page shows: the lines around `line`, or from line `begin` on those that hold `text`.

    With neither, the last lines."""
    index = site.operations.indexes.of(attempt_of(site.home, job.id, attempt).log)
    lines, found, error, total, first = list[Line](), Found([], None), None, 0, 1
    try:
        total = index.lines()
        error = index.first_error()
        if text and line is None:
            found = search(index, text, begin)
        else:
            first = max(1, total - LINES + 1) if line is None else (line - 1) // LINES * LINES + 1
            lines = list(_lines(site, job, attempt, first, text))
    except OSError:  # it has written nothing yet, or is no file
        pass
    return {
        **{"attempt": attempt, "text": text, "line": line, "total": total, "error": error},
        **{
            "lines": lines,
            "first": first,
            "earlier": first - 1,
            "later": first + LINES if first + LINES <= total else 0,
        },
        **{"found": list(_found(site, job, attempt, found, text)), "following": found.following},
    }


def _lines(site: Site, job: Job, attempt: int, first: int, text: str) -> Iterator[Line]:
    files = attempt_of(site.home, job.id, attempt)
    start = site.operations.indexes.of(files.log).offset_of(first)
    with open_regular(files.log) as file:
        file.seek(start)
        raw = file.read(BYTES).split(b"\n")[: LINES + 1]
    if len(raw) > LINES or not raw[-1]:  # what comes after the last line feed
        raw.pop()
    offsets = []
    for one in raw:
        offsets.append(start)
        start += len(one) + 1
    for number, (one, at) in enumerate(zip(raw, read_times(files.times, offsets), strict=True), first):
        yield Line(number, _shown(one.decode("utf-8", "replace"), text), at)


def _found(site: Site, job: Job, attempt: int, found: Found, text: str) -> Iterator[Line]:
    times = read_times(attempt_of(site.home, job.id, attempt).times, found.offsets)
    for (number, one), at in zip(found.lines, times, strict=True):
        yield Line(number, _shown(one, text), at)


def _shown(line: str, text: str) -> Markup:
    short = line[-LONGEST:] if "\r" in line else line[:LONGEST]
    more = Markup(" <small>and {:,} characters more</small>").format(len(line) - LONGEST)
    return coloured(short, text) + (more if len(line) > LONGEST else "")


def whole_log(site: Site, job: Job, attempt: int) -> Iterator[bytes]:
    """Yields the log as the command has written it; nothing if there is none."""
    try:
        with open_regular(attempt_of(site.home, job.id, attempt).log) as file:
            while block := file.read(CHUNK):
                yield block
    except OSError:
        return
