"""`corpus=labelled`: texts with a label, or a tag for each word, as two files of lines per corpus file.

    TSV          the columns `text` and `label` of corpus.columns; tags separated by spaces as the words are
    JSON Lines   the fields that corpus.fields names, `text` and `label`: texts, or lists of words and of tags
    CoNLL-U      the columns FORM and UPOS; others by the position of `text` and `label` in corpus.columns
    CoNLL-2003   a word a line, columns separated by blanks, the tag in the last one; likewise

Parquet is read as TSV.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.inputs.json_rows import parse_row
from dragoman.model.inputs.lines import View, open_lines
from dragoman.model.plural import plural
from dragoman.model.text.normalise import normalise
from dragoman.pipelines.corpus.read.file_names import SPLITS, Split
from dragoman.pipelines.corpus.read.sources import Source, local_file, name_columns, names_of_one, written_source
from dragoman.pipelines.corpus.settings import CorpusConfig

logger = logging.getLogger(__name__)
SHOWN = 5  # bad records to name
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
ROWS = {"jsonl": "jsonl", "ndjson": "jsonl", "conllu": "conllu", "conll": "conll", "bio": "conll", "iob": "conll"}
CONLL_COLUMNS = {"conllu": (1, 3), "conll": (0, -1)}  # of the word and of its tag
Row = tuple[int, Any, Any]  # line (from 1), text or words, label or tags


def labelled_sources(config: CorpusConfig, pair: str, folder: Path) -> list[Source]:
    """Writes the corpus files' texts and labels as lines into `folder`; returns them as a Moses corpus' sources."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = []
    for split in SPLITS:
        key = f"corpus.{split}.file"
        for number, name in enumerate(names_of_one(config, split, "a labelled file holds texts and labels")):
            path = local_file(config, pair, name, key)
            sources.append(_write(config, path, f"{split}-{number}", split, key, folder))
    if not any(source.split == "train" for source in sources):
        raise UserError("corpus.train.file: no training file given for format labelled; give corpus.train.file=FILE")
    return sources


def _write(config: CorpusConfig, path: Path, name: str, split: Split, key: str, folder: Path) -> Source:
    files = (folder / f"{name}-{path.name}.text", folder / f"{name}-{path.name}.labels")
    rows, broken = [], []
    for line, text, label in _rows(config, path):
        try:
            rows.append(_record(config, text, label))
        except ValueError as problem:
            if config.on_error == "raise":
                raise UserError(
                    f"{path}: line {line}: {problem} (corpus.on_error=skip leaves such records out)"
                ) from None
            broken.append(f"line {line} ({problem})")
    if broken:
        more = f" and {len(broken) - SHOWN:,} more" if len(broken) > SHOWN else ""
        logger.warning(f"{path}: left out: {'; '.join(broken[:SHOWN])}{more}")
    if not rows:
        raise UserError(f"{key}: {path}: holds no labelled text")
    return written_source(name, split, files, key, rows)


def _record(config: CorpusConfig, text: Any, label: Any) -> tuple[str, str]:
    """Returns text and label as lines.

    Raises ValueError: a part is missing or empty, tags and words are not of one number.
    """
    form = config.clean.form
    if config.labels == "tags":
        words, tags = (value.split() if isinstance(value, str) else value for value in (text, label))
        if not (isinstance(words, list) and isinstance(tags, list)):
            raise ValueError("a text of words and a list of tags are expected")
        if len(words) != len(tags):
            raise ValueError(f"{plural(len(words), 'word')} and {plural(len(tags), 'tag')}; each word has one tag")
        words, tags = ([normalise(str(word), form).replace(" ", "") for word in side] for side in (words, tags))
        if not words or not all(words) or not all(tags):
            raise ValueError("an empty word or tag")
        return " ".join(words), " ".join(tags)
    if not isinstance(text, str) or not normalise(text, form):
        raise ValueError("no text")
    if isinstance(label, list | dict) or label is None or not normalise(str(label), form):
        raise ValueError("no label" if not isinstance(label, list) else "a list of labels; corpus.labels=tags takes it")
    return normalise(text, form), normalise(str(label), form)


def _rows(config: CorpusConfig, path: Path) -> Iterator[Row]:
    form = config.rows
    if form == "auto":
        name = path.name.lower()
        for suffix in COMPRESSED:
            name = name.removesuffix(suffix)
        form = ROWS.get(name.rpartition(".")[2], "tsv")  # type: ignore[assignment]  # one of the choices
    if form in CONLL_COLUMNS:
        if config.labels != "tags":
            raise UserError(
                f"corpus.labels={config.labels}: {path} is a {form} file, which has tags; corpus.labels=tags"
            )
        yield from _conll(config, path, form)
        return
    for number, line in _lines(path, View(rows="tsv")):
        if not line.strip() or (number == 1 and config.header and form == "tsv"):
            continue
        yield _json_row(config, path, number, line) if form == "jsonl" else _tsv_row(config, path, number, line)


def _lines(path: Path, view: View) -> Iterator[tuple[int, str]]:
    with open_lines(path, view) as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as problem:
                raise UserError(f"{path}: line {number}: not UTF-8 ({problem.reason})") from None


def _tsv_row(config: CorpusConfig, path: Path, number: int, line: str) -> Row:
    cells, columns = line.split("\t"), _columns_of(config)
    if number == 1 and name_columns([cells[column] for column in columns if column < len(cells)], ()):
        raise UserError(
            f"{path}: line 1: holds the names of the columns ({', '.join(cells)}), not a text; corpus.header=true "
            f"leaves it out"
        )
    if len(cells) <= max(columns):
        raise UserError(
            f"{path}: line {number}: {plural(len(cells), 'column')}, and corpus.columns=[{', '.join(config.columns)}] "
            f"needs {max(columns) + 1}, separated by tabs"
        )
    return number, cells[columns[0]], cells[columns[1]]


def _columns_of(config: CorpusConfig) -> tuple[int, int]:
    """Returns the columns of text and label among the columns."""
    for name in ("text", "label"):
        if config.columns.count(name) != 1:
            raise UserError(
                f"corpus.columns=[{', '.join(config.columns)}]: name the columns in order: text and label once each, "
                f"and - for one to leave out"
            )
    return config.columns.index("text"), config.columns.index("label")


def _json_row(config: CorpusConfig, path: Path, number: int, line: str) -> Row:
    try:
        row = parse_row(line)
    except ValueError as problem:
        raise UserError(f"{path}: line {number}: not JSON ({problem})") from None
    if not isinstance(row, dict):
        raise UserError(f'{path}: line {number}: not an object, such as {{"text": ..., "label": ...}}')
    sides = []
    for side, usual in (("source", "text"), ("target", "label")):
        name = config.fields.get(side, usual)
        value: Any = row
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            raise UserError(
                f"{path}: line {number}: no field {name!r} (corpus.fields.{side}); fields: {', '.join(row)}"
            )
        sides.append(value)
    return number, sides[0], sides[1]


def _conll(config: CorpusConfig, path: Path, form: str) -> Iterator[Row]:
    """Yields sentences: runs of lines with a word each, ended by blank lines; comments and ranges are left out."""
    chosen = {"text", "label"} <= set(config.columns) and config.columns != ["text", "label"]
    at_word, at_tag = _columns_of(config) if chosen else CONLL_COLUMNS[form]
    first, words, tags, ended = 0, list[str](), list[str](), 0
    for number, line in _lines(path, View()):
        cells = line.split("\t") if form == "conllu" else line.split()
        if not line.strip() or cells[0] == "-DOCSTART-":
            if words:
                yield first, words, tags
                ended += 1
            words, tags = [], []
            continue
        if form == "conllu" and (line.startswith("#") or not cells[0].isdigit()):
            continue
        if len(cells) <= max(at_word, at_tag, 1):
            raise UserError(f"{path}: line {number}: {plural(len(cells), 'column')}; a word and its tag are expected")
        if form == "conllu" and words and cells[0] == "1":
            raise UserError(f"{path}: line {number}: a sentence begins without a blank line before it")
        first = first if words else number
        words.append(cells[at_word])
        tags.append(cells[at_tag])
    if not ended and 0 < config.clean.max_words < len(words):
        raise UserError(
            f"{path}: holds one sentence of {len(words):,} words, more than corpus.clean.max_words="
            f"{config.clean.max_words}; a blank line ends each sentence"
        )
    if words:
        yield first, words, tags
