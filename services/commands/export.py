"""`dragoman export [FORMAT...]` and `vectors distil RUN`: models in the formats of other programs, as files."""

import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from dragoman.conf import compose
from dragoman.conf.options import positional
from dragoman.conf.own import as_words
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import atomic_directory
from dragoman.model.ranges import Whole, check_ranges
from dragoman.model.storage.mirror import publish_files
from dragoman.model.storage.places import local_folder
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.formats import Format, write_format
from dragoman.services.models.vectors_source import VectorsLoader, VectorsSource

FORMATS: dict[Format, str] = {
    "text": "word2vec's text format",
    "binary": "word2vec's binary format",
    "numpy": "a NumPy array and its vocabulary",
    "projector": "for the TensorBoard projector",
}
NetworkFormat = Literal["sentence-transformers", "model2vec", "onnx"]
NETWORK_FORMATS: dict[NetworkFormat, str] = {
    "sentence-transformers": "an encoder for sentence-transformers and transformers",
    "model2vec": "an encoder's vectors of pieces, for model2vec",
    "onnx": "graphs for ONNX Runtime",
}
AnyFormat = Literal[Format, NetworkFormat]

DISTIL = "dragoman vectors distil RUN [export.output=FOLDER] [export.components=N]"
HUGGINGFACE = "huggingface"  # a folder of transformers, of a translation or language model


@dataclass
class ExportConfig(VectorsSource):
    """The word vectors or the encoder to write, the folder, and the formats."""

    output: str = "artifacts/exports/vectors"  # a folder
    formats: list[AnyFormat] = field(default_factory=lambda: list(FORMATS))  # to write
    restrict: Whole = 0  # this many most frequent words; 0: all
    components: Whole = 0  # model2vec: numbers of a vector, by principal component analysis; 0: the encoder's width


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of `export` or `vectors`, the first word. Words without a `=` are formats, but for a run
    after `huggingface`; `vectors distil RUN` is `export model2vec export.vectors=RUN`.

    Raises UserError: more words after `huggingface`, which writes one model.
    """
    verb, *line = argv
    words, rest = positional(line)
    if verb == "vectors":
        rest = [*([f"export.vectors={words[1]}"] if len(words) == 2 else []), *rest]
        return compose.run_section(lambda config: distil(config, words), "export", ExportConfig, rest, verb)
    if words[:1] == [HUGGINGFACE]:
        if len(words) > 2:
            raise UserError(f"export {HUGGINGFACE}: writes one model; {shlex.join(words[2:])} is too much")
        rest = [*as_words({"export.vectors": words[1]} if words[1:] else {}, HUGGINGFACE), *rest]
        return compose.run_section(export_network, "export", ExportConfig, rest, "export")
    return compose.run_section(lambda config: export(config, words), "export", ExportConfig, rest, "export")


def export(config: ExportConfig, formats: Sequence[str] = ()) -> int:
    """Writes `formats`, or the configured ones, and prints each new file.

    Raises UserError: an unknown format, vectors or an encoder that it cannot hold, or a folder that is not writable.
    """
    known_formats: dict[str, str] = dict((*FORMATS.items(), *NETWORK_FORMATS.items()))
    for word in formats:
        if word == HUGGINGFACE:
            raise UserError(f"export {HUGGINGFACE}: stands before other words and alone: export {HUGGINGFACE} [RUN]")
        if word not in known_formats:
            raise unknown("export.formats", word, [*known_formats, HUGGINGFACE])
    chosen = set(formats or config.formats)
    check_ranges("export", config)
    writers: dict[str, Callable[[Path], object]] = {}
    if chosen & set(FORMATS):
        embeddings = most_frequent(VectorsLoader.of("export", config).load(config.vectors).embeddings, config.restrict)
        writers |= {name: partial(write_format, name=name, embeddings=embeddings) for name in FORMATS}
    if chosen & set(NETWORK_FORMATS):
        writers |= network_writers(config)
    output = local_folder(config.output, config.cache)
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name in (format_name for format_name in known_formats if format_name in chosen):
            with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=output) as part:
                writers[name](Path(part))
                for file in move_files(Path(part), output):
                    print(f"{file}  {file.stat().st_size:,} bytes, {known_formats[name]}")
        publish_files(output)
    except PermissionError as problem:
        raise UserError(f"export.output: {problem.filename} cannot be written ({problem.strerror})") from None
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"export.output: {output} is not a folder") from None
    return compose.OK


def distil(config: ExportConfig, words: Sequence[str]) -> int:
    """Writes the static table of the encoder that `config.vectors` names, in the format of model2vec."""
    if not words or words[0] != "distil" or len(words) > 2:
        raise UserError(f"vectors {' '.join(words)}: the one action is distil: {DISTIL}".replace("  ", " "))
    return export(config, ["model2vec"])


def network_writers(config: ExportConfig) -> dict[str, Callable[[Path], object]]:
    """Returns format -> what writes the encoder into a folder, each below a folder of its own."""
    # They load torch, which word vectors do not need.
    from dragoman.model.bundles.onnx_graphs import write_onnx
    from dragoman.model.bundles.sentence_transformers import write_sentence_transformers
    from dragoman.model.bundles.static_table import write_static_table
    from dragoman.model.inference.sentence_vectors import load_any_bundle
    from dragoman.services.commands.context import model_directory

    bundle = load_any_bundle(model_directory(config, "export"))
    return {
        "sentence-transformers": lambda folder: write_sentence_transformers(folder / "sentence-transformers", bundle),
        "model2vec": lambda folder: write_static_table(folder / "model2vec", bundle, config.components),
        "onnx": lambda folder: write_onnx(folder / "onnx", bundle),
    }


def export_network(config: ExportConfig) -> int:
    """Writes the folder `output` of transformers for the translation or language model that `vectors` names."""
    from dragoman.model.huggingface.write import write_huggingface  # with torch, which word vectors need not
    from dragoman.model.inference.kinds import open_bundle

    if config.vectors is None:
        raise UserError("export.vectors: name the model: a run, a bundle's directory or models:/NAME@ALIAS")
    bundle = open_bundle(VectorsLoader.of("export", config).directory(config.vectors))
    output = local_folder(config.output, config.cache)
    if output.exists():
        raise UserError(f"export.output: {output} is there already; name a new folder")
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
