"""The bundle: a directory that holds everything a translation needs, and says what it was made from.

    config.json         format version, architecture and its configuration, vocabularies, tokenizers, facts,
                        and the sha256 of every other file
    model.safetensors   the weights; a tied table is stored once
    tokenizer.model     or source.* and target.*
    ct2/ ct2-int8/      the CTranslate2 exports, where the architecture has one

Nothing is pickled and nothing names code: the architecture is a row of a closed table.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from model.architectures import architecture, build_network, model_config
from model.decoding import DecodeConfig
from model.errors import UserError
from model.export import FOLDERS, Quantisation, export, exportable
from model.network import TranslationNetwork
from model.schema import build
from model.tokenizer import TokenizerPair, load_pair

FORMAT_VERSION = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
STRUCTURE = (
    "format_version",
    "architecture",
    "model",
    "vocabulary",
    "positions",
    "tokenizer",
    "files",
)  # the rest are facts


@dataclass
class Bundle:
    """A bundle on disk whose files have been checked; the network is built when it is first asked for."""

    directory: Path
    architecture: str
    config: Any  # the architecture's config dataclass
    source_vocabulary: int
    target_vocabulary: int
    source_positions: int  # the most source tokens, end of sentence included
    target_positions: int
    tokenizers: TokenizerPair
    decode: DecodeConfig
    pair: str  # "en-de"
    facts: dict[str, Any] = field(default_factory=dict)  # scores, manifest_hash, run ...
    files: tuple[str, ...] = ()
    digest: str = ""  # sha256 (hex) of config.json, and through it of every file

    @cached_property
    def network(self) -> TranslationNetwork:
        """The network with its weights, in evaluation mode.

        Raises:
            UserError: weights that do not fit the configuration.
        """
        network = build_network(self.config, self.source_vocabulary, self.target_vocabulary)
        load_weights(network, self.directory / WEIGHTS)
        return network.eval()

    def export_folder(self, quantisation: Quantisation) -> Path | None:
        """The CTranslate2 model of that quantisation; None where the bundle has none."""
        folder = FOLDERS[quantisation]
        return self.directory / folder if f"{folder}/model.bin" in self.files else None

    def tokens(self) -> tuple[list[str], list[str]]:
        """The name of each id of the source and of the target vocabulary."""
        return token_names(self.tokenizers)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        source, _, target = self.pair.partition("-")
        return source, target


def save_bundle(
    directory: Path,
    *,
    network: TranslationNetwork,
    config: Any,
    tokenizers: TokenizerPair,
    facts: Mapping[str, Any],
    exports: Sequence[Quantisation] = ("float32", "int8"),
) -> None:
    """Write the bundle whole: into a temporary directory beside it, then renamed; an older one is replaced.

    `facts` must be JSON and holds at least `pair`; `decode` are the decoding defaults. `exports` are made where the
    architecture allows.

    Raises:
        UserError: facts without a pair, or that use a name of the bundle's own.
    """
    from safetensors.torch import save_file

    if not isinstance(facts.get("pair"), str) or "-" not in facts["pair"]:
        raise UserError(f"bundle facts: pair must name two languages such as en-de, got {facts.get('pair')!r}")
    taken = sorted(set(facts) & set(STRUCTURE))
    if taken:
        raise UserError(f"bundle facts: {', '.join(taken)} cannot be facts; they describe the bundle itself")
    directory = directory.absolute()
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        save_file(distinct_weights(network), work / WEIGHTS)
        tokenizers.save(work)
        if exportable(network):
            for quantisation in exports:
                export(network, work / FOLDERS[quantisation], *token_names(tokenizers), quantisation)
        record = {
            "format_version": FORMAT_VERSION,
            "architecture": config.architecture,
            "model": dict(vars(config)),
            "vocabulary": {"source": tokenizers.source.vocabulary, "target": tokenizers.target.vocabulary},
            "positions": {"source": network.max_source_positions, "target": network.max_target_positions},
            "tokenizer": tokenizers.describe(),
            "files": {name: describe(work / name) for name in listing(work)},
            **facts,
        }
        write_json(work / CONFIG, record)
        for folder, _, names_in in os.walk(work):
            for name in [*names_in, "."]:
                synchronise(Path(folder) / name)
        work.chmod(0o755)  # mkdtemp's own is closed to others
        replace_directory(work, directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def load_bundle(directory: Path) -> Bundle:
    """Read and check a bundle.

    Raises:
        UserError: not a bundle, an unknown format version or architecture, a file that is missing or not the one that
            was saved (named), a configuration that does not fit its schema.
    """
    record, digest = read_record(directory)
    check_files(directory, record["files"])
    row = architecture(record["architecture"])
    config = model_config(record["model"])
    if not isinstance(config, row.config):
        raise UserError(f"{directory / CONFIG}: architecture {record['architecture']!r} does not fit its model section")
    facts = {key: value for key, value in record.items() if key not in STRUCTURE}
    return Bundle(
        directory=directory,
        architecture=record["architecture"],
        config=config,
        source_vocabulary=record["vocabulary"]["source"],
        target_vocabulary=record["vocabulary"]["target"],
        source_positions=record["positions"]["source"],
        target_positions=record["positions"]["target"],
        tokenizers=load_pair(directory, record["tokenizer"]),
        decode=build(DecodeConfig, facts.get("decode", {}), "decode"),
        pair=str(record["pair"]),
        facts=facts,
        files=tuple(record["files"]),
        digest=digest,
    )


def update_facts(directory: Path, facts: Mapping[str, Any]) -> None:
    """Add or replace facts (scores measured after saving) in config.json, atomically; its files stay as they are."""
    record, _ = read_record(directory)
    taken = sorted(set(facts) & set(STRUCTURE))
    if taken:
        raise UserError(f"bundle facts: {', '.join(taken)} cannot be facts; they describe the bundle itself")
    temporary = directory / f".{CONFIG}.new"
    write_json(temporary, {**record, **facts})
    synchronise(temporary)
    temporary.replace(directory / CONFIG)
    synchronise(directory)


def read_record(directory: Path) -> tuple[dict[str, Any], str]:
    """The checked content of config.json and its sha256 (hex)."""
    path = directory / CONFIG
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise UserError(f"{directory}: not a bundle; its {CONFIG} cannot be read ({problem.strerror})") from None
    try:
        record = json.loads(content)
    except ValueError as problem:
        raise UserError(f"{path}: not JSON ({problem})") from None
    if not isinstance(record, dict) or "format_version" not in record:
        raise UserError(f"{path}: not a bundle's; it has no format_version")
    if record["format_version"] != FORMAT_VERSION:
        raise UserError(f"{path}: format_version {record['format_version']!r}; this program reads {FORMAT_VERSION}")
    for key in (*STRUCTURE, "pair"):
        if key not in record:
            raise UserError(f"{path}: {key} is missing")
    for key in ("vocabulary", "positions"):
        sizes = record[key]
        if not isinstance(sizes, dict) or not all(isinstance(sizes.get(side), int) for side in ("source", "target")):
            raise UserError(f"{path}: {key} must give a whole number for source and target")
    return record, hashlib.sha256(content).hexdigest()


def check_files(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Each listed file lies inside the bundle and is the one that was saved."""
    for name, recorded in files.items():
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise UserError(f"{directory / CONFIG}: files: {name!r} lies outside the bundle")
        path = directory / name
        if not path.is_file():
            raise UserError(f"{path}: missing from the bundle")
        if describe(path) != dict(recorded):
            raise UserError(f"{path}: not the file that was saved (its sha256 differs); fetch or export it again")
    if WEIGHTS not in files:
        raise UserError(f"{directory / CONFIG}: files: {WEIGHTS} is missing")


def token_names(tokenizers: TokenizerPair) -> tuple[list[str], list[str]]:
    """The written form of every id of both sides."""
    source, target = tokenizers.source, tokenizers.target
    return source.pieces(range(source.vocabulary)), target.pieces(range(target.vocabulary))


def distinct_weights(network: TranslationNetwork) -> dict[str, Tensor]:
    """The state by name, each tensor once: tied ones under the first of their names."""
    seen: set[int] = set()
    weights = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            weights[name] = tensor.detach().cpu().contiguous()
    return weights


def load_weights(network: TranslationNetwork, path: Path) -> None:
    """Fill the network from a safetensors file that names each distinct tensor once.

    Raises:
        UserError: a tensor too many, too few or of another shape.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path)
    except SafetensorError as problem:
        raise UserError(f"{path}: not readable as safetensors ({problem})") from None
    fill(network, weights, str(path))


def fill(network: TranslationNetwork, weights: Mapping[str, Tensor], where: str) -> None:
    """Give the network these weights, each distinct tensor named once; `where` they come from opens the messages.

    Raises:
        UserError: a tensor too many, too few or of another shape.
    """
    wanted = distinct_weights(network)
    for name in sorted(wanted.keys() ^ weights.keys()):
        raise UserError(f"{where}: {'no' if name in wanted else 'unexpected'} tensor {name!r} for this configuration")
    for name, tensor in wanted.items():
        if tensor.shape != weights[name].shape:
            raise UserError(
                f"{where}: tensor {name!r} has shape {tuple(weights[name].shape)}, "
                f"the configuration needs {tuple(tensor.shape)}"
            )
    with torch.no_grad():
        network.load_state_dict(weights, strict=False)


def describe(path: Path) -> dict[str, Any]:
    """{sha256, bytes} of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "bytes": path.stat().st_size}


def listing(directory: Path) -> list[str]:
    """Every file below, as sorted relative names with /."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def synchronise(path: Path) -> None:
    """Make a file's or a directory's content survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_directory(new: Path, directory: Path) -> None:
    """Rename `new` to `directory`. One that is there is moved aside first and removed last, so never half a bundle."""
    if not directory.exists():
        new.rename(directory)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
    directory.rename(aside / "bundle")
    new.rename(directory)
    shutil.rmtree(aside)
