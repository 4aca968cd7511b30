"""The command `unpack`: turns shards back into text, to see the network's input or to use it in other programs."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, count, islice
from pathlib import Path
from typing import Literal, TextIO

from dragoman.conf.compose import run
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_path, atomic_text
from dragoman.model.ranges import Whole
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.samples import write_samples
from dragoman.pipelines.config import PathsConfig
from dragoman.pipelines.loaders.texts import unpack_split

SAMPLES = 10_000  # in a tar
_BREAKS = str.maketrans("\t\n\r", "   ")  # would add columns or lines to the output; other tools' shards may have some


@dataclass
class UnpackConfig:
    """The records to turn into text, and the output."""

    split: str = "train"
    side: Literal["both", "source", "target"] = "both"
    form: Literal["text", "pieces"] = "text"
    format: Literal["lines", "webdataset"] = "lines"  # webdataset: tars for other tools, one sample per record
    first: Whole = 0  # global id
    records: Whole | None = None


@dataclass
class UnpackRoot:
    """The sections that the command reads."""

    paths: PathsConfig = field(default_factory=PathsConfig)
    unpack: UnpackConfig = field(default_factory=UnpackConfig)
    output: str | None = None  # folder for {split}.{language}.txt, or {split}-{number}.tar


def task(root: UnpackRoot) -> int:
    """Writes the records as configured. Raises UserError: an unknown side or split, or no folder."""
    config, directory = root.unpack, root.paths.local(root.paths.shards)
    languages = ShardReader(directory, config.split).manifest.sides
    sides = {"both": range(len(languages)), "source": range(1), "target": range(1, 2)}[config.side]
    if len(languages) <= max(sides):
        raise UserError(f"unpack.side={config.side}: the shards in {directory} hold {languages[0]} only")
    if config.format == "webdataset":
        return _write_tars(config, root.output, directory, sides, [languages[side] for side in sides])
    with ExitStack() as files:
        outputs = _outputs(config, root.output, [languages[side] for side in sides], files)
        for number, record in enumerate(unpack_split(directory, config.split, config.first, config.form)):
            if number == config.records:
                break
            texts = [record[side].translate(_BREAKS) for side in sides]
            if len(outputs) == 1:
                outputs[0].write("\t".join(texts) + "\n")
                continue
            for output, text in zip(outputs, texts, strict=True):
                output.write(text + "\n")
    return 0


def _write_tars(config: UnpackConfig, output: str | None, directory: Path, sides: range, languages: list[str]) -> int:
    """Writes tars of SAMPLES records each, keyed by the record's global id: `.en` and `.de`, or `.txt` for a text."""
    if output is None:
        raise UserError("output: a folder is needed for unpack.format=webdataset")
    extensions = languages if len(ShardReader(directory, config.split).manifest.sides) > 1 else ["txt"]
    folder = _folder(output)
    records = islice(unpack_split(directory, config.split, config.first, config.form), config.records)
    samples = (
        (f"{number:09d}", {extension: record[side].encode() for extension, side in zip(extensions, sides, strict=True)})
        for number, record in enumerate(records, config.first)
    )
    for number in count():
        first = next(samples, None)
        if first is None:
            return 0
        with atomic_path(folder / f"{config.split}-{number:06d}.tar") as part:
            write_samples(part, chain([first], islice(samples, SAMPLES - 1)))
    return 0


def _folder(output: str) -> Path:
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"output={folder}: not a folder") from None
    return folder


def _outputs(config: UnpackConfig, output: str | None, languages: list[str], files: ExitStack) -> list[TextIO]:
    """Returns standard output, or one file per language that appears only when it is complete."""
    if output is None:
        return [sys.stdout]
    folder = _folder(output)
    paths = [folder / f"{config.split}.{language}.txt" for language in languages]
    return [files.enter_context(atomic_text(path)) for path in paths]


def main(argv: list[str]) -> int:
    """Runs the command."""
    return run(task, UnpackRoot, argv, "unpack")
