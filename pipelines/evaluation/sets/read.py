"""Reads test sets: the held-out texts of shards, rows of TSV or JSON Lines, or plain files of one side each.

    evaluate.sets={wmt: [wmt.en, wmt.a.de, wmt.b.de], news: news.tsv, tico: artifacts/shards/tico}

A row of a TSV holds the source and one or more references; a first line that names the columns (`source` or `en`,
`reference` or `de`, as often as there are references, and `domain`) may give another order. A JSON object has `source`,
`reference` or `references`, and `domain`; the language codes stand for the first two as well.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.inputs.json_rows import parse_row
from dragoman.model.inputs.lines import View, open_lines
from dragoman.model.languages import same_language
from dragoman.model.names import check_name
from dragoman.model.shards.manifest import MANIFEST, read_manifest
from dragoman.pipelines.evaluation.held_out import held_out

KEY = "evaluate.sets"
SOURCE, REFERENCE, DOMAIN = "source", "reference", "domain"
Row = tuple[str, tuple[str, ...], str]  # source, references, domain


@dataclass(frozen=True)
class HeldOutSet:
    """Sources with one or more references each, in the order of their files."""

    name: str
    sources: list[str]
    references: list[tuple[str, ...]]
    domains: list[str] = field(default_factory=list)  # of each line; empty: the set knows none
    split: str = ""  # of shards
    shards: Path | None = None
    places: tuple[str, ...] = ()  # its files, or the folder of shards

    @property
    def digest(self) -> str:
        """Returns the name of the texts."""
        hasher = hashlib.sha256()
        for source, references in zip(self.sources, self.references, strict=True):
            hasher.update("\t".join((source, *references)).encode() + b"\n")
        return hasher.hexdigest()[:12]

    @property
    def first(self) -> list[str]:
        """Returns the first reference of each line."""
        return [references[0] for references in self.references]

    @property
    def most(self) -> int:
        """Returns the most references of a line."""
        return max(map(len, self.references))

    def streams(self, rows: Sequence[int] | None = None) -> list[list[str | None]]:
        """Returns the references as sacreBLEU takes them: one list per reference, None where a line has fewer."""
        chosen = [self.references[row] for row in rows] if rows is not None else self.references
        most = max(map(len, chosen))
        return [[line[number] if number < len(line) else None for line in chosen] for number in range(most)]


def read_sets(
    set_paths: Mapping[str, str | Sequence[str]],
    languages: Sequence[str],
    split: str,
    most: int = 0,
    local: Callable[[str], Path] = Path,
) -> list[HeldOutSet]:
    """Returns the sets by name; of shards the split `split`, of each the first `most` lines (0: all).

    `local` turns a place into the path of its files on this machine.

    Raises UserError: a file is missing, has no lines, or its lines do not fit; names key, file and line.
    """
    sets = []
    for name, value in set_paths.items():
        paths = [local(file).absolute() for file in ([value] if isinstance(value, str) else value)]
        test_set = _read(check_name(f"{KEY}.{name}", name), paths, languages, split, most)
        sets.append(replace(test_set, places=tuple(map(str, paths))))
    return sets


def _read(name: str, paths: Sequence[Path], languages: Sequence[str], split: str, most: int) -> HeldOutSet:
    key = f"{KEY}.{name}"
    for path in paths:
        if not path.exists():
            raise UserError(f"{key}: {path}: no such file or folder; give shards, one file of rows, or one file a side")
    if len(paths) == 1 and paths[0].is_dir():
        return _of_shards(name, paths[0], languages, split, most)
    if folder := next((path for path in paths if path.is_dir()), None):
        raise UserError(f"{key}: {folder}: is a folder; the files of sources and references are needed")
    rows = _rows(paths[0], languages) if len(paths) == 1 else _plain(key, paths, languages)
    chosen = list(rows)[: most or None]
    if not chosen:
        raise UserError(f"{key}: {paths[0]}: has no lines")
    domains = [domain for _, _, domain in chosen]
    sources, references = [row[0] for row in chosen], [row[1] for row in chosen]
    return HeldOutSet(name, sources, references, domains if any(domains) else [])


def _of_shards(name: str, folder: Path, languages: Sequence[str], split: str, most: int) -> HeldOutSet:
    if not (folder / MANIFEST).is_file():
        raise UserError(f"{KEY}.{name}: {folder}: is a folder without finished shards; name files, or `dragoman shard`")
    sources, references = held_out(folder, split, languages, most, "evaluate.split")
    parts = read_manifest(folder).part_ranges(split)
    domains = [part for part, ids in parts.items() for _ in ids][: len(sources)]
    return HeldOutSet(name, sources, [(line,) for line in references], domains, split, folder)


def _plain(key: str, paths: Sequence[Path], languages: Sequence[str]) -> Iterator[Row]:
    """Yields the rows of one file of sources and one or more of references."""
    sides = [list(_lines(path, (languages[min(number, 1)],))) for number, path in enumerate(paths)]
    for path, lines in zip(paths[1:], sides[1:], strict=True):
        if len(lines) != len(sides[0]):
            raise UserError(f"{key}: {paths[0]} has {len(sides[0]):,} lines, {path} has {len(lines):,}")
    for source, first, *others in zip(*sides, strict=True):
        yield source, (first, *(text for text in others if text)), ""


def _rows(path: Path, languages: Sequence[str]) -> Iterator[Row]:
    """Yields the rows of a TSV, of JSON Lines, or of a container such as TMX."""
    columns: list[str] = []
    for number, line in enumerate(_lines(path, tuple(languages)), 1):
        if not line.strip():
            continue
        try:
            if line.lstrip().startswith("{"):
                yield _json_row(parse_row(line), languages)
                continue
            cells = line.split("\t")
            named = [_column(cell, languages) for cell in cells]
            if number == 1 and SOURCE in named and REFERENCE in named:
                columns = named
                continue
            yield _tsv_row(cells, columns)
        except ValueError as problem:
            raise UserError(f"{path}: line {number}: {problem}") from None


def _column(cell: str, languages: Sequence[str]) -> str:
    """Returns the role of a column of that name; empty if it has none."""
    name = cell.strip().lower()
    if name == SOURCE or same_language(name, languages[0]):
        return SOURCE
    if name == "target" or name.startswith(REFERENCE) or same_language(name, languages[1]):
        return REFERENCE
    return DOMAIN if name == DOMAIN else ""


def _tsv_row(cells: Sequence[str], columns: Sequence[str]) -> Row:
    if not columns:
        columns = [SOURCE, *[REFERENCE] * (len(cells) - 1)]
    if len(cells) != len(columns) or len(cells) < 2:
        raise ValueError(f"has {len(cells)} column(s), expected {max(2, len(columns))} with tabs between")
    by_role = {role: [cell for cell, column in zip(cells, columns, strict=True) if column == role] for role in columns}
    return _row(by_role[SOURCE][0], by_role[REFERENCE], by_role.get(DOMAIN, [""])[0])


def _json_row(row: Any, languages: Sequence[str]) -> Row:
    if not isinstance(row, dict):
        raise ValueError("is no JSON object")
    by_role: dict[str, list[Any]] = {}
    for name, value in row.items():
        if role := _column(name, languages):
            by_role.setdefault(role, []).extend(value if isinstance(value, list) else [value])
    if SOURCE not in by_role or REFERENCE not in by_role:
        raise ValueError(f"has no source and reference; its keys are {', '.join(map(str, row)) or 'none'}")
    if wrong := next((cell for each in by_role.values() for cell in each if not isinstance(cell, str)), None):
        raise ValueError(f"{wrong!r} is no text")
    return _row(by_role[SOURCE][0], by_role[REFERENCE], by_role.get(DOMAIN, [""])[0])


def _row(source: str, references: Sequence[str], domain: str) -> Row:
    """Returns a row of single lines; an empty reference beside others is left out."""
    source, *texts = (" ".join(text.split("\n")) for text in (source, *references))
    return source, tuple(text for text in texts if text) or ("",), domain.strip()


def _lines(path: Path, languages: tuple[str, ...]) -> Iterator[str]:
    with open_lines(path, View(languages)) as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise UserError(
                    f"{path}: line {number}: is no UTF-8; iconv -f ENCODING -t utf-8 makes it so (latin1, cp1251 ...)"
                ) from None
            yield text.removesuffix("\n").removesuffix("\r")
