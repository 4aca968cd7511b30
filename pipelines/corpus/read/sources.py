"""The files of a corpus: the configured names, resolved for one language pair and checked to exist."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.inputs.kinds import kind_of
from dragoman.model.inputs.lines import SIDES, View, is_container, open_lines
from dragoman.model.languages import language_name, same_language, split_pair
from dragoman.pipelines.corpus.read.file_names import SPLITS, Split, fill_pattern, is_column, names_of
from dragoman.pipelines.corpus.settings import CorpusConfig, SplitFiles

_PATTERN = re.compile(r"[*?\[]")
# Usual names of columns in a file's first row.
COLUMNS = frozenset(
    (  # noqa: SIM905  # a list of words reads better so
        "source target src tgt text texts sentence sentences review reviews comment label labels class sentiment "
        "category tag tags score rating translation translations original reference input output id"
    ).split()
)


@dataclass(frozen=True)
class TextForm:
    """The lines of a text that are kept, and the records that they make."""

    paragraphs: bool = False  # True: a record is the text between blank lines; False: a line
    blank: bool = False  # True: blank lines are records too
    between: tuple[str, ...] = ()  # beginnings of the lines before and after the part to keep; or empty


@dataclass(frozen=True)
class Source:
    """One text: two files of a sentence per line (moses), or one of pairs (tsv, jsonl) or of one language (text)."""

    name: str  # unique within the corpus, also a file name: train-0
    split: Split
    format: str
    files: tuple[Path, ...]
    keys: tuple[str, ...]  # the configuration key that named each file, for messages
    columns: tuple[str, ...] = ()  # tsv: column numbers of source and target; jsonl: their dotted field paths
    views: tuple[View, ...] = ()  # the lines to read from each file; empty: all
    part: str = ""  # the corpus of a mix that it belongs to
    header: bool = False  # tsv: the first line names the columns
    form: TextForm | None = None  # of one language; None: pairs

    def view(self, side: int) -> View:
        return self.views[side] if self.views else View()


def written_source(
    name: str, split: Split, files: tuple[Path, Path], key: str, rows: Iterable[tuple[str, str]]
) -> Source:
    """Writes pairs as two files of lines; returns them as a Moses corpus' source that `key` named."""
    for file, lines in zip(files, zip(*rows, strict=True), strict=True):
        atomic_write(file, "".join(f"{line}\n" for line in lines), durable=False)
    return Source(name, split, "moses", files, (key, key))


def sources_of(config: CorpusConfig, pair: str) -> list[Source]:
    """Returns all texts of the corpus in a fixed order: train, valid, test, gate, each in the order configured."""
    if config.needs_root and not config.root:
        raise UserError(f"corpus.root: needed for corpus={config.name}; give the folder that holds its files")
    if config.root and not Path(config.root).expanduser().is_dir():
        raise UserError(f"corpus.root={config.root}: no such folder")
    if config.format == "text":
        sources = _texts(config, pair)
    else:
        sources = []
        for split in SPLITS:
            files: SplitFiles = getattr(config, split)
            sources += _sources_of_split(config, pair, split, files)
    if not any(source.split == "train" for source in sources):
        keys = ["corpus.train.source", "corpus.train.target"] if config.format == "moses" else ["corpus.train.file"]
        raise UserError(
            f"{' and '.join(keys)}: no training file given for format {config.format}; give "
            f"{' '.join(f'{key}=FILE' for key in keys)}"
        )
    _check_cut(config, sources)
    return sources


def _sources_of_split(config: CorpusConfig, pair: str, split: Split, files: SplitFiles) -> list[Source]:
    key = f"corpus.{split}"
    if config.format == "moses":
        if names_of(files.file):
            raise UserError(
                f"{key}.file: a Moses pair is two files; give {key}.source and {key}.target, or write corpus=tsv, "
                f"corpus=jsonl or corpus=text for one file"
            )
        sides = (("source", files.source), ("target", files.target))
        left, right = (_paths(config, pair, names_of(names), f"{key}.{side}") for side, names in sides)
        if len(left) != len(right):
            raise UserError(f"{key}: {len(left)} source files but {len(right)} target files; they go in pairs")
        columns = zip(split_pair(pair), _fields(config, pair), strict=True)
        views = tuple(View((language,), (field,)) for language, field in columns)
        keys = (f"{key}.source", f"{key}.target")
        return [
            Source(f"{split}-{number}", split, config.format, paths, keys, views=views)
            for number, paths in enumerate(zip(left, right, strict=True))
        ]
    names = names_of_one(config, split, f"format {config.format} has both sides in one file")
    paths = _paths(config, pair, names, f"{key}.file")
    return [_rows(config, pair, f"{split}-{number}", split, path) for number, path in enumerate(paths)]


def _rows(config: CorpusConfig, pair: str, name: str, split: Split, path: Path) -> Source:
    """Returns a file of both sides: TSV or JSON Lines, or a container, which is read as JSON Lines."""
    keys = (f"corpus.{split}.file",)
    if is_container(kind_of(path)):
        view = View(split_pair(pair), _fields(config, pair))
        return Source(name, split, "jsonl", (path,), keys, SIDES, (view,))
    columns = _columns(config, pair) if config.format == "tsv" else _fields(config, pair)
    if config.format == "tsv":
        _refuse_names_of_columns(path, pair, columns, config.header)
    return Source(name, split, config.format, (path,), keys, columns, header=config.header)


def _refuse_names_of_columns(path: Path, pair: str, columns: tuple[str, ...], header: bool) -> None:
    """Refuses a TSV whose first line is the names of its columns, unless `header` says so."""
    if header:
        return
    with open_lines(path, View()) as file:
        cells = file.readline().decode("utf-8-sig", "replace").split("\t")
    names = [cells[int(column)].strip() for column in columns if int(column) < len(cells)]
    if len(names) == len(SIDES) and name_columns(names, split_pair(pair)):
        raise UserError(
            f"{path}: line 1: holds the names of the columns ({', '.join(names)}), no pair; corpus.header=true leaves "
            f"it out"
        )


def name_columns(cells: Sequence[str], languages: Sequence[str]) -> bool:
    """Returns True if the cells of a row are names of columns: of languages, or usual ones."""
    codes = {language_name(code).lower() for code in languages}
    lower = [cell.strip().lower() for cell in cells]
    if all(cell in COLUMNS or cell in codes for cell in lower):
        return True
    return len(lower) == len(languages) and all(map(same_language, lower, languages))


def _texts(config: CorpusConfig, pair: str) -> list[Source]:
    """Returns the files that the patterns match, sorted by name; a held-out file is never a training file too."""
    form = TextForm(config.records == "paragraph", config.blank == "keep", tuple(config.between))
    if form.blank and form.paragraphs:
        raise UserError("corpus.blank=keep: a blank line ends a paragraph; take corpus.records=line")
    sources: list[Source] = []
    taken: set[Path] = set()
    for split in reversed(SPLITS):
        key = f"corpus.{split}.file"
        view = View((pair,), _fields(config, pair)[:1])
        paths = _paths(config, pair, names_of_one(config, split, "format text has one side"), key)
        own = [path for path in dict.fromkeys(paths) if path not in taken]
        if paths and not own:
            raise UserError(f"{key}: every file of it belongs to another split as well")
        taken.update(own)
        sources = [
            *(
                Source(f"{split}-{number}", split, config.format, (path,), (key,), views=(view,), form=form)
                for number, path in enumerate(own)
            ),
            *sources,
        ]
    return sources


def names_of_one(config: CorpusConfig, split: Split, why: str) -> list[str]:
    """Returns the names in `corpus.{split}.file`; `why`: what has no source and target apart."""
    files: SplitFiles = getattr(config, split)
    if names_of(files.source) or names_of(files.target):
        raise UserError(f"corpus.{split}.source: {why}; give corpus.{split}.file")
    return names_of(files.file)


def _paths(config: CorpusConfig, pair: str, names: Iterable[str], key: str) -> list[Path]:
    return [path for name in names for path in _matches(config, pair, name, key)]


def _matches(config: CorpusConfig, pair: str, name: str, key: str) -> list[Path]:
    """Returns the file of that name, or those that the pattern matches."""
    pattern = Path(fill_pattern(config, pair, name)).expanduser()
    folder = Path(config.root).expanduser() if config.root else Path()
    path = folder / pattern
    if path.is_dir():
        raise UserError(f"{key}: {path}: is a folder; name its files, such as {path}/*.txt")
    if not _PATTERN.search(str(pattern)) or path.is_file():
        return [local_file(config, pair, name, key)]
    if pattern.is_absolute():
        folder, pattern = Path(pattern.anchor), pattern.relative_to(pattern.anchor)
    paths = sorted(path for path in folder.glob(str(pattern)) if path.is_file())
    if not paths:
        raise UserError(f"{key}: {path}: no file has such a name")
    return paths


def local_file(config: CorpusConfig, pair: str, name: str, key: str) -> Path:
    path = Path(fill_pattern(config, pair, name)).expanduser()
    if config.root:
        path = Path(config.root).expanduser() / path  # an absolute path is unchanged
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "no such file"
        hint = f" (pair={pair}: does this corpus have it?)" if "{" in name else ""
        raise UserError(f"{key}: {path}: {what}{hint}")
    return path


def _columns(config: CorpusConfig, pair: str) -> tuple[str, str]:
    """Returns the column numbers (from 0, as text) of the two sides of a TSV."""
    source, target = split_pair(pair)
    other = next((language for language in (target, source) if not is_column(config, language)), "")
    names = [other if name == "other" else name for name in config.columns]
    numbers = []
    for side, language in (("source", source), ("target", target)):
        matches = [number for number, name in enumerate(names) if name == side or same_language(name, language)]
        if len(matches) != 1:
            raise UserError(
                f"corpus.columns={config.columns}: {len(matches)} columns for the {side} side of pair={pair}; "
                f"name the columns in order: source, target, other, a language code, or - for one to leave out"
            )
        numbers.append(str(matches[0]))
    return numbers[0], numbers[1]


def _fields(config: CorpusConfig, pair: str) -> tuple[str, str]:
    for side in ("source", "target"):
        if side not in config.fields:
            raise UserError(f"corpus.fields: needs the keys source and target, has {sorted(config.fields)}")
    return fill_pattern(config, pair, config.fields["source"]), fill_pattern(config, pair, config.fields["target"])


def _check_cut(config: CorpusConfig, sources: list[Source]) -> None:
    for name in SPLITS[1:]:
        share = config.cut.share(name)
        if share and any(source.split == name for source in sources):
            raise UserError(f"corpus.cut.{name}={share}: the {name} split is given by files already; cut it or give it")
    if sum(config.cut.share(name) for name in SPLITS[1:]) >= 1.0:
        shares = " and ".join(f"{name} {share}" for name in SPLITS[1:] if (share := config.cut.share(name)))
        raise UserError(f"corpus.cut: {shares} leave nothing for training")
