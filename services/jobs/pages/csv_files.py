"""CSV files of long lists, sent while they are read."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fastapi.responses import StreamingResponse

from dragoman.services.jobs.pages.site import HEADERS

AT_ONCE = 500  # rows of a query
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # OWASP, CSV injection
Column = str | Callable[[Any], object]  # an attribute of a row, or what to show of it


def csv_file(
    name: str, columns: Mapping[str, Column], read: Callable[[int | None], Sequence[Any]], key: str
) -> StreamingResponse:
    """Returns a file to download. `read` returns the rows after that whose `key` it gets, at first after None."""

    def lines() -> Iterator[str]:
        yield _lines([columns])
        before = None
        while rows := read(before):
            yield _lines(
                [getattr(row, cell) if isinstance(cell, str) else cell(row) for cell in columns.values()]
                for row in rows
            )
            before = getattr(rows[-1], key)

    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines(), media_type="text/csv", headers=headers)


def _lines(rows: Iterable[Iterable[object]]) -> str:
    """Returns rows as lines of a CSV file, without formulas."""
    made = io.StringIO()
    csv.writer(made).writerows([[_safe(cell) for cell in row] for row in rows])
    return made.getvalue()


def _safe(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
