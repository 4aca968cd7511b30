"""`dragoman export [FORMAT...]`: word vectors in other programs' formats; `export huggingface [RUN]`: a network."""

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.conf import compose
from dragoman.conf.options import positional
from dragoman.conf.own import as_words
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import atomic_directory
from dragoman.model.ranges import Whole, check_ranges
from dragoman.model.schema import NO_SETTING
from dragoman.model.storage.places import local_folder
from dragoman.model.storage.transfers import publish_files
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.formats import Format, write_format
from dragoman.services.models.home import run_section
from dragoman.services.models.vectors_source import VectorsSource, open_vectors, vectors_folder

FORMATS: dict[Format, str] = {
    "text": "word2vec's text format",
    "binary": "word2vec's binary format",
}
HUGGINGFACE = "huggingface"  # a folder of transformers, of a translation or language model


@dataclass
class ExportConfig(VectorsSource):
    """The model to write, and the folder."""

    output: str = field(default="artifacts/exports/vectors", metadata=NO_SETTING)  # a folder
    restrict: Whole = 0  # this many most frequent words; 0: all


def main(argv: Sequence[str]) -> int:
    """Returns the exit code. Words without a `=` are formats, but for a run after `huggingface`."""
    words, rest = positional(argv)
    if words[:1] == [HUGGINGFACE]:
        if len(words) > 2:
            raise UserError(f"export {HUGGINGFACE}: writes one model; {shlex.join(words[2:])} is too much")
        rest = [*as_words({"export.vectors": words[1]} if words[1:] else {}, HUGGINGFACE), *rest]
        return run_section(export_network, "export", ExportConfig, rest, "export")
    return run_section(lambda config: export(config, words), "export", ExportConfig, rest, "export")


def export(config: ExportConfig, formats: Sequence[str] = ()) -> int:
    """Writes the word vectors in `formats`, or in all, and prints each new file."""
    for word in formats:
        if word == HUGGINGFACE:
            raise UserError(f"export {HUGGINGFACE}: stands before other words and alone: export {HUGGINGFACE} [RUN]")
        if word not in FORMATS:
            raise unknown("export format", word, [*FORMATS, HUGGINGFACE])
    check_ranges("export", config)
    embeddings = most_frequent(open_vectors(config, "export").embeddings, config.restrict)
    output = local_folder(config.output, config.home.cache)
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name in (name for name in FORMATS if name in (formats or FORMATS)):
            with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=output) as part:
                write_format(Path(part), name, embeddings)
                for file in move_files(Path(part), output):
                    print(f"{file}  {file.stat().st_size:,} bytes, {FORMATS[name]}")
        publish_files(output)
    except PermissionError as problem:
        raise UserError(f"output: {problem.filename} cannot be written ({problem.strerror})") from None
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"output: {output} is not a folder") from None
    return compose.OK


def export_network(config: ExportConfig) -> int:
    """Writes the folder `output` of transformers for the translation or language model that `vectors` names."""
    from dragoman.model.huggingface.write import write_huggingface  # with torch, which word vectors need not
    from dragoman.model.inference.kinds import open_bundle

    if config.vectors is None:
        raise UserError("export.vectors: name the model: a run, a bundle's directory or models:/NAME@ALIAS")
    bundle = open_bundle(vectors_folder(config, "export", config.vectors))
    output = local_folder(config.output, config.home.cache)
    if output.exists():
        raise UserError(f"output: {output} is there already; name a new folder")
    with atomic_directory(output) as work:
        write_huggingface(work, bundle)
    for path in sorted(output.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")
    publish_files(output)
    return compose.OK


def most_frequent(embeddings: Embeddings, restrict: int) -> Embeddings:
    """Returns the vectors of the `restrict` most frequent words; 0: all."""
    if not restrict or restrict >= len(embeddings):
        return embeddings
    return Embeddings(
        embeddings.words[:restrict],
        embeddings.counts[:restrict],
        embeddings.vectors[:restrict],
        embeddings.weights[:restrict],
        language=embeddings.language,
    )


def move_files(part: Path, output: Path) -> list[Path]:
    """Moves the files of `part` into `output`, so that each file is complete or unchanged; returns their paths."""
    files = []
    for source in sorted(path for path in part.rglob("*") if path.is_file()):
        target = output / source.relative_to(part)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        files.append(target)
    return files
