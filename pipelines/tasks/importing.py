"""Another program's model becomes a run with a bundle, registered as ours are."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.model.bundles.directory import bundle_hash, bundle_kind, read_facts
from dragoman.model.bundles.vectors import save_read
from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.huggingface.folder import Folder, ImportOptions
from dragoman.model.huggingface.generation import not_followed
from dragoman.model.huggingface.hub import fetch
from dragoman.model.huggingface.read import is_of_one_language, read_model, save_imported
from dragoman.model.languages import check_language, is_single, same_language, split_pair
from dragoman.model.names import check_name
from dragoman.model.runs.paths import BUNDLE
from dragoman.model.runs.record import write_release
from dragoman.model.word_vectors.readers import read_vectors
from dragoman.pipelines.config import ImportRoot
from dragoman.pipelines.tracking.lineage import log_import
from dragoman.pipelines.tracking.registry import register_bundle
from dragoman.pipelines.tracking.run import TrackedRun

logger = logging.getLogger(__name__)
HUB = "hf://"
IN_A_NAME = re.compile(r".*[-_]([a-z]{2,3})[-_]([a-z]{2,3})")  # opus-mt-en-de


def task(config: ImportRoot, source: str = "") -> int:
    """Makes the run's folder with the bundle, and registers it."""
    if not source:
        raise UserError(f"name the model: dragoman import FOLDER, {HUB}ORG/NAME or FILE of word vectors")
    address = source.rstrip("/")
    name = config.name or folder_name(address)
    registry = config.registry if config.registry.name else replace(config.registry, name=name)
    config = replace(config, name=check_name("name", name), registry=registry)
    refuse_other_run(config)
    bundle = config.run_dir / BUNDLE
    if address.startswith(HUB):
        fetched = fetch(address, config.paths.local(config.paths.cache) / "hub")
        save_model(config, address, fetched.folder, {"source": address, "revision": fetched.revision})
    elif Path(address).is_dir():
        save_model(config, address, Path(address), {"source": str(Path(address).absolute())})
    elif Path(address).exists():
        save_vectors_of(config, Path(address))
    else:
        raise UserError(f"{source}: neither a folder nor a file; a model of a hub is {HUB}ORG/NAME")
    register(config, bundle)
    return compose.OK


def folder_name(source: str) -> str:
    """Returns the default name: the last part of the source, without revision and ends such as .vec.gz."""
    last = Path(source.removeprefix(HUB).partition("@")[0] if source.startswith(HUB) else source).name
    return re.sub(r"(\.(gz|zip|xz|bz2|zst|txt|vec|bin|safetensors))+$", "", last)


def refuse_other_run(config: ImportRoot) -> None:
    """Raises UserError if the name is that of a run that was trained: its bundle would be lost."""
    if not config.run_dir.exists():
        return
    bundle = config.run_dir / BUNDLE
    if not (bundle / "config.json").is_file() or "imported" not in read_facts(bundle):
        raise UserError(f"name={config.name}: there is a run of this name in {config.run_dir}; choose another name=")


def refuse_other_pair(config: ImportRoot, pair: str, stated: str | None) -> None:
    """Refuses a pair that is not the model's own, or not that of the import whose name is taken."""
    if stated is not None and not all(map(same_language, split_pair(stated), split_pair(pair))):
        raise UserError(f"pair={pair}: the model's tokenizer_config.json says {stated}; leave pair out")
    bundle = config.run_dir / BUNDLE
    before = str(read_facts(bundle).get("pair")) if (bundle / "config.json").is_file() else pair
    if before != pair:
        raise UserError(
            f"name={config.name}: the import of this name in {config.run_dir} is of {before}, and pair is {pair}; "
            f"choose another name="
        )


def save_model(config: ImportRoot, source: str, path: Path, origin: Mapping[str, Any]) -> None:
    """Writes the bundle of a folder of transformers, and tells how to go on with it."""
    folder = Folder(path)
    stated = stated_pair(folder)
    of_one_language = is_of_one_language(folder)
    if of_one_language:
        pair = language_of(config, folder)
    else:
        pair = config.pair or stated or pair_of_name(source)
    refuse_other_pair(config, pair, stated if folder.config.get("model_type") == "marian" else None)
    first, second = (pair, pair) if of_one_language else split_pair(pair)
    settings = config.imports
    options = ImportOptions(first, second, settings.source_token, settings.target_token)
    imported = read_model(folder, options)
    save_imported(config.run_dir / BUNDLE, imported, folder, pair, origin)
    logger.info(f"{config.run_dir / BUNDLE}: {imported.network.parameter_count():,} parameters, {pair}")
    if imported.notes.get("head"):
        logger.warning(f"{source}: holds no layer that predicts tokens; `dragoman predict` would guess at random")
    if others := not_followed(folder):
        logger.warning(f"{source}: generation settings that are not followed here: {', '.join(others)}")
    kind = imported.tokenizers.source.type
    logger.info(
        f"fine-tune it: dragoman shard tokenizer={kind} tokenizer.same_as={config.name} ..., then: dragoman train "
        f"train.init_from={config.name} ..."
    )


def language_of(config: ImportRoot, folder: Folder) -> str:
    """Returns the language of an encoder or a language model: `pair`, else that of README.md's front matter."""
    pair = config.pair or folder.front_matter("language")
    if pair is None or not is_single(pair):
        raise UserError(f"{folder.path}: reads texts of one language; give it, such as pair=en")
    return check_language(pair)


def stated_pair(folder: Folder) -> str | None:
    """Returns the languages that the tokenizer's configuration gives; None if it gives none."""
    settings = folder.optional("tokenizer_config.json")
    first, second = settings.get("source_lang"), settings.get("target_lang")
    return f"{first}-{second}" if isinstance(first, str) and isinstance(second, str) else None


def pair_of_name(source: str) -> str:
    """Returns the languages in a model's name."""
    match = IN_A_NAME.fullmatch(folder_name(source))
    if match is None:
        raise UserError(f"{source}: does not say which languages it translates; give them, such as pair=en-de")
    return "-".join(match.groups())


def save_vectors_of(config: ImportRoot, path: Path) -> None:
    """Writes the bundle of a file of word vectors."""
    if not config.pair or not is_single(config.pair):
        raise UserError(f"{path}: holds words of one language; give it, such as pair=en")
    read = read_vectors(path)
    origin = {"source": str(path.absolute()), "format": read.format, "sha256": file_sha256(path)}
    save_read(config.run_dir / BUNDLE, read, check_language(config.pair), origin)
    logger.info(
        f"{config.run_dir / BUNDLE}: {len(read.words):,} words of {read.vectors.shape[1]} numbers ({read.format})"
    )


def register(config: ImportRoot, bundle: Path) -> None:
    """Records the import as a run, and registers the bundle as a version if `registry.register` asks for it."""
    facts = read_facts(bundle)
    with TrackedRun(config.tracking, config.run_dir, config.name, system=False) as run:
        log_import(run, facts["imported"], str(facts["pair"]), bundle_hash(bundle))
        version = register_bundle(config.tracking, config.registry, run, bundle) if config.registry.register else None
        content = {
            "run": config.name, "run_id": run.run_id, "bundle": str(bundle), "model": config.registry.name,
            "version": version, "kind": bundle_kind(bundle),
        }  # fmt: skip
    write_release(config.run_dir, content)
    if version is not None:
        logger.info(f"registered: models:/{config.registry.name}/{version}")
