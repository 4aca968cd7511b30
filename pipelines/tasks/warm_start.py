"""Starts from other models: a network begins with another's weights instead of random ones.

`train.init_from` gives the whole network: a bundle of the same network, except dropout, and of the same vocabulary
(`tokenizer.same_as`). Parts and other vocabularies are in `part_start.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from dragoman.model.bundles.directory import WEIGHTS as WEIGHTS_FILE
from dragoman.model.bundles.directory import bundle_hash, check_files, read_facts
from dragoman.model.bundles.weights import fill
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import model_config
from dragoman.model.networks.network import Network
from dragoman.model.runs.paths import FIRST_WEIGHTS
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks import lora, part_start, parts, quantise
from dragoman.pipelines.tasks.kept import Kept, Note

KEY = "train.init_from"
MAY_DIFFER = ("name", "dropout", "attention_dropout", "activation_dropout")


def initialise(config: Config, network: Network, tokenizers: TokenizerPair) -> None:
    """Gives `network` the weights that the configuration asks for, and sets what is trained, and how.

    Without any it keeps its random ones.
    """
    if by_parts := part_start.references(config):
        refuse_embeddings(config, "embeddings" in by_parts, "train.init_parts.embeddings")
        part_start.fill_parts(config, network, WEIGHTS.tensors(config, tokenizers))
    elif config.train.init_from:
        where = f"{KEY}={config.train.init_from}"
        refuse_embeddings(config, True, where)
        fill(network, WEIGHTS.tensors(config, tokenizers), where)
    parts.freeze(config, network)
    lora.adapt(config, network)
    quantise.adapt(config, network)


def refuse_embeddings(config: Config, brings: bool, where: str) -> None:
    """Raises UserError if both another model and word vectors give the tables."""
    if brings and config.embeddings.references:
        raise UserError(f"{where}: brings embeddings of its own; leave embeddings.source and .target out")


def make(config: Config, tokenizers: TokenizerPair) -> tuple[Mapping[str, Tensor], Note]:
    """Returns the initial weights of a run, of parts or of the whole network."""
    if part_start.references(config):
        taken = part_start.take(config, tokenizers)
        records = {part: part_taken.record for part, part_taken in taken.items()}
        return part_start.merged(taken), {"asked": settings(config), "parts": records}
    reference = str(config.train.init_from)
    directory = config.bundle_dir(reference, KEY)
    facts = read_facts(directory)
    check_files(directory, facts["files"])
    check_fit(config, facts, tokenizers, f"{KEY}={reference}")
    note = {"reference": reference, "digest": bundle_hash(directory), "run": facts.get("run")}
    return load_file(directory / WEIGHTS_FILE), note


def check_fit(config: Config, facts: Mapping[str, Any], tokenizers: TokenizerPair, where: str) -> None:
    """Refuses a bundle whose weights mean something else in this run's network; `where` begins the message."""
    ours, theirs = vars(model_config(config.model)), facts["model"]
    for key in ours:
        if key not in MAY_DIFFER and key in theirs and theirs[key] != ours[key]:
            raise UserError(f"{where}: was trained with model.{key}={theirs[key]}, this network has {ours[key]}")
    if vocabularies(facts["tokenizer"]) != vocabularies(tokenizers.describe()):
        raise UserError(part_start.other_vocabulary(config, where))


def vocabularies(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns side -> sha256 of its tokenizer, by `TokenizerPair.describe`: each side has its own tables."""
    return {entry["side"]: entry["sha256"] for entry in record["files"]}


def describe(config: Config, note: Note) -> Iterator[str]:
    if "parts" in note:
        yield from part_start.describe(config, note["parts"])
    else:
        yield f"{KEY}: the network begins with the weights of {note['reference']} ({note['digest'][:12]})"


def settings(config: Config) -> dict[str, Any]:
    """Returns the settings that the initial weights depend on; empty if they are random."""
    return {key: value for key, value in config.train.beginning.items() if key.startswith("init_")}


def stored(note: Note) -> dict[str, Any]:
    return dict(note.get("asked", {"init_from": note.get("reference")}))


WEIGHTS = Kept(FIRST_WEIGHTS, settings, stored, make, describe)
