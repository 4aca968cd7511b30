"""Rows of Parquet and Arrow files: the requested columns, by language."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from dragoman.model.errors import UserError
from dragoman.model.languages import nearest

ROWS = 8192  # in memory at once
PAIR_COLUMN, TEXT_COLUMN = "translation", "text"  # names that data sets on hubs use


def rows_of(
    path: Path, kind: Literal["parquet", "arrow"], languages: Sequence[str], fields: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """Yields the texts of each row by language; an empty cell is an empty text.

    `fields` are the dotted names of the languages' columns. By default a language's column is named by its code, or by
    its code in `translation`; for a single language it may be `text`.
    """
    import pyarrow

    try:
        schema, batches = _open(path, kind)
        places = [
            _place(path, schema, language, fields[number] if fields else "", len(languages) == 1)
            for number, language in enumerate(languages)
        ]
        for batch in batches({place[0] for place in places}):
            for row in batch.to_pylist():
                yield {language: _text(path, row, place) for language, place in zip(languages, places, strict=True)}
    except (pyarrow.ArrowInvalid, OSError) as problem:
        raise _damage_error(path, kind, problem) from None


def table_lines(path: Path, kind: Literal["parquet", "arrow"]) -> Iterator[str]:
    """Yields each row as its columns with tabs between, in their order; blanks replace tabs and breaks in a cell."""
    import pyarrow

    try:
        schema, batches = _open(path, kind)
        for batch in batches(set(schema.names)):
            for row in batch.to_pylist():
                cells = ("" if row[name] is None else str(row[name]) for name in schema.names)
                yield "\t".join(" ".join(cell.replace("\t", " ").split("\n")) for cell in cells)
    except (pyarrow.ArrowInvalid, OSError) as problem:
        raise _damage_error(path, kind, problem) from None


def _damage_error(path: Path, kind: str, problem: Exception) -> UserError:
    return UserError(f"{path}: the {kind} file is damaged ({str(problem).splitlines()[0]})")


def _open(path: Path, kind: str) -> tuple[Any, Any]:
    """Returns the schema, and a function that yields the batches of some columns."""
    import pyarrow.ipc
    import pyarrow.parquet

    if kind == "parquet":
        table = pyarrow.parquet.ParquetFile(path)
        return table.schema_arrow, lambda names: table.iter_batches(ROWS, columns=sorted(names))
    source = pyarrow.memory_map(str(path))
    with path.open("rb") as file:
        whole = file.read(6) == b"ARROW1"
    reader = pyarrow.ipc.open_file(source) if whole else pyarrow.ipc.open_stream(source)
    each = (reader.get_batch(i) for i in range(reader.num_record_batches)) if whole else iter(reader)
    return reader.schema, lambda names: (batch.select(sorted(names)) for batch in each)


def _place(path: Path, schema: Any, language: str, field: str, alone: bool) -> list[str]:
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


def _text(path: Path, row: dict[str, Any], place: Sequence[str]) -> str:
    value: Any = row
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"{path}: column {'.'.join(place)} holds {type(value).__name__}, not text")
    return value
