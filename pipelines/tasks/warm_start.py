"""`train.init_from`: a network begins with the weights of a bundle instead of random ones.

The bundle has the same network, except dropout, and the same vocabulary (`tokenizer.same_as`). A network with a head
takes the embeddings and the encoder of a masked model or of another head.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from dragoman.model.bundles.directory import WEIGHTS as WEIGHTS_FILE
from dragoman.model.bundles.directory import bundle_hash, check_files, read_facts
from dragoman.model.bundles.weights import distinct_weights, fill
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import model_config
from dragoman.model.networks.network import Network
from dragoman.model.networks.part_names import PARTS
from dragoman.model.runs.paths import FIRST_WEIGHTS
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import shard_command, training_file
from dragoman.pipelines.tasks import lora, parts, pretrained_embeddings
from dragoman.pipelines.tasks.kept import Kept, Note

KEY = "train.init_from"
MAY_DIFFER = ("name", "dropout", "attention_dropout", "activation_dropout")
OF_HEADS = ("architecture", "head", "pooling")  # settings of a head and not of the encoder below it
ENCODERS = ("bert", "transformer_head")  # networks with the same encoder


def initialise(config: Config, network: Network, tokenizers: TokenizerPair) -> None:
    """Gives `network` the weights that `train.init_from` names, if any, and freezes what is not trained."""
    if config.train.init_from:
        where = f"{KEY}={config.train.init_from}"
        if config.embeddings.references:
            raise UserError(f"{where}: brings embeddings of its own; leave embeddings.source and .target out")
        of_head = distinct_weights(network) if "head" in config.model else {}
        fill(network, {**of_head, **WEIGHTS.tensors(config, tokenizers)}, where)
    parts.freeze(config, network)
    lora.adapt(config, network)


def make(config: Config, tokenizers: TokenizerPair) -> tuple[Mapping[str, Tensor], Note]:
    """Returns the initial weights of a run, of the whole network or of what lies below its head."""
    reference = str(config.train.init_from)
    directory = config.bundle_dir(reference, KEY)
    facts = read_facts(directory)
    check_files(directory, facts["files"])
    check_fit(config, facts, tokenizers, f"{KEY}={reference}")
    tensors = load_file(directory / WEIGHTS_FILE)
    if "head" in config.model:
        own = PARTS[config.model["architecture"]]
        below = (*own["embeddings"], *own["encoder"])
        tensors = {name: tensor for name, tensor in tensors.items() if name.startswith(below)}
    return tensors, {"reference": reference, "digest": bundle_hash(directory), "run": facts.get("run")}


def check_fit(config: Config, facts: Mapping[str, Any], tokenizers: TokenizerPair, where: str) -> None:
    """Refuses a bundle whose weights mean something else in this run's network; `where` begins the message."""
    ours, theirs = vars(model_config(config.model)), facts["model"]
    alike = {ours["architecture"], theirs["architecture"]} <= {*ENCODERS} and "head" in ours
    for key in ours:
        if key in MAY_DIFFER or key not in theirs or (alike and key in OF_HEADS):
            continue
        if theirs[key] != ours[key]:
            raise UserError(f"{where}: was trained with model.{key}={theirs[key]}, this network has {ours[key]}")
    stored, present = vocabularies(facts["tokenizer"]), vocabularies(tokenizers.describe())
    # the other vocabulary of a head are its labels
    if next(iter(stored.values())) != next(iter(present.values())) if "head" in ours else stored != present:
        file = training_file(read_manifest(config.shard_dir), config.corpus.train.file)
        same = shard_command(f"tokenizer.same_as={config.train.init_from}", beside=config.paths.shards, file=file)
        raise UserError(
            f"{where}: its tokenizer is not that of the shards in {config.shard_dir}. Make shards with its tokenizer: "
            f"{same}"
        )


def vocabularies(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns side -> sha256 of its tokenizer, by `TokenizerPair.describe`: each side has its own tables."""
    return {entry["side"]: entry["sha256"] for entry in record["files"]}


def describe(_config: Config, note: Note) -> Iterator[str]:
    yield f"{KEY}: the network begins with the weights of {note['reference']} ({note['digest'][:12]})"


WEIGHTS = Kept(
    FIRST_WEIGHTS,
    settings=lambda config: {"init_from": config.train.init_from} if config.train.init_from else {},
    stored=lambda note: {"init_from": note.get("reference")},
    make=make,
    describe=describe,
)
# what a run begins with beside its settings
BEGINNINGS = (pretrained_embeddings.ROWS, WEIGHTS)


def keep(config: Config, tokenizers: TokenizerPair) -> None:
    """Stores the tensors that a new run begins with, once, before its ranks start."""
    for beginning in BEGINNINGS:
        beginning.keep(config, tokenizers)


def facts(config: Config) -> dict[str, Any]:
    """Returns the bundle's facts about the models that gave the run weights or word vectors."""
    rows, weights = (beginning.note(config) for beginning in BEGINNINGS)
    return {
        **({"init": weights} if weights else {}),
        **({"lora": asdict(config.train.lora)} if config.train.lora.rank else {}),
        **({"embeddings": {**rows["sides"], "freeze": config.embeddings.freeze}} if rows else {}),
    }
