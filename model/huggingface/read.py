"""The architectures that can be imported, a row each, and the bundle that an imported model becomes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.model.bundles.network import save_bundle
from dragoman.model.errors import unknown
from dragoman.model.huggingface.bart import read_bart, read_m2m, read_marian
from dragoman.model.huggingface.families import ROWS
from dragoman.model.huggingface.folder import CONFIG, Folder, Imported, ImportOptions
from dragoman.model.huggingface.generation import decoding, not_followed
from dragoman.model.huggingface.stacks import read_stack
from dragoman.model.networks.network import TranslationNetwork

READERS: dict[str, Callable[[Folder, ImportOptions], Imported]] = {
    "marian": read_marian,
    "m2m_100": read_m2m,
    "bart": read_bart,
    **dict.fromkeys(ROWS, read_stack),
}


def read_model(folder: Folder, options: ImportOptions) -> Imported:
    """Returns the model of a folder of transformers."""
    kind = folder.setting("model_type", str, "")
    if kind not in READERS:
        raise unknown(f"{folder.path / CONFIG}: model_type", kind, READERS)
    return READERS[kind](folder, options)


def is_of_one_language(folder: Folder) -> bool:
    """Returns True for an encoder or a language model, which has no pair of languages."""
    return folder.config.get("model_type") in ROWS


def save_imported(directory: Path, imported: Imported, folder: Folder, pair: str, origin: Mapping[str, Any]) -> None:
    """Writes the bundle of an imported model, with CTranslate2's export.

    `origin` says where the folder comes from; the bundle's fact `imported` holds it beside the license and the files'
    hashes.
    """
    network, config = imported.network.eval(), imported.config
    facts: dict[str, Any] = {
        "pair": pair,
        "normalisation": "NFC",
        "imported": {
            **origin,
            "model_type": folder.config["model_type"],
            "license": folder.front_matter("license"),
            "files": folder.hashes(),
            **imported.notes,
        },
    }
    if others := not_followed(folder):
        facts["imported"]["generation_not_followed"] = others
    if isinstance(network, TranslationNetwork):
        facts["decode"] = asdict(decoding(folder))
    facts = json.loads(json.dumps(facts))
    save_bundle(directory, network=network, config=config, tokenizers=imported.tokenizers, facts=facts)
