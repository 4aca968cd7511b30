"""Rows of Parquet files: the texts of languages, or all columns."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.languages import nearest

ROWS = 8192  # in memory at once
PAIR_COLUMN, TEXT_COLUMN = "translation", "text"  # names that data sets on hubs use


def rows_of(path: Path, languages: Sequence[str], fields: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """Yields the texts of each row by language; an empty cell is an empty text.

    `fields` are the dotted names of the languages' columns. By default a language's column is named by its code, or by
    its code in `translation`; for a single language it may be `text`.
    """

    def columns_of(schema: Any) -> dict[str, list[str]]:
        return {
            language: _column(path, schema, language, fields[number] if fields else "", len(languages) == 1)
            for number, language in enumerate(languages)
        }

    for columns, row in _rows(path, columns_of):
        yield {language: _text(path, row, column) for language, column in columns.items()}


def table_lines(path: Path) -> Iterator[str]:
    """Yields each row as its columns with tabs between, in their order; blanks replace tabs and breaks in a cell."""
    for columns, row in _rows(path, lambda schema: {name: [name] for name in schema.names}):
        cells = ("" if row[name] is None else str(row[name]) for name in columns)
        yield "\t".join(" ".join(cell.replace("\t", " ").split("\n")) for cell in cells)


def _rows(
    path: Path, columns_of: Callable[[Any], dict[str, list[str]]]
) -> Iterator[tuple[dict[str, list[str]], dict[str, Any]]]:
    """Yields the dotted names of the columns that `columns_of` takes from the schema, and each row."""
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path)
        columns = columns_of(table.schema_arrow)
        for batch in table.iter_batches(ROWS, columns=sorted({names[0] for names in columns.values()})):
            for row in batch.to_pylist():
                yield columns, row
    except (pyarrow.ArrowInvalid, OSError) as problem:
        raise UserError(f"{path}: the parquet file is damaged ({str(problem).splitlines()[0]})") from None


def _column(path: Path, schema: Any, language: str, field: str, alone: bool) -> list[str]:
    """Returns the parts of the dotted name of a language's column."""
    if field and field.partition(".")[0] in schema.names:
        return field.split(".")
    column = nearest(language, tuple(schema.names))
    if column:
        return [column]
    if PAIR_COLUMN in schema.names:
        inner = schema.field(PAIR_COLUMN).type
        names = tuple(inner.field(i).name for i in range(inner.num_fields)) if hasattr(inner, "num_fields") else ()
        column = nearest(language, names)
        if column:
            return [PAIR_COLUMN, column]
    if alone and TEXT_COLUMN in schema.names:
        return [TEXT_COLUMN]
    raise UserError(
        f"{path}: has no column for {language}; columns: {', '.join(schema.names)} "
        f"(corpus.fields='{{source: NAME, target: NAME}}' names those of a corpus; elsewhere rename one)"
    )


def _text(path: Path, row: dict[str, Any], column: Sequence[str]) -> str:
    value: Any = row
    for name in column:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{path}: column {'.'.join(column)} holds {type(value).__name__}, not text")
    return value
