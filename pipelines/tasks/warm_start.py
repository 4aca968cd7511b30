"""`train.init_from`: a network begins with another's weights instead of random ones.

The other is a bundle of the same network, except dropout, and of the same vocabulary (`tokenizer.same_as`). Its weights
are stored in the run's directory (init.safetensors) at the run's first start.
"""

import logging
from collections.abc import Mapping
from typing import Any

from safetensors.torch import load_file

from model.bundles.directory import WEIGHTS, bundle_hash, check_files, read_facts
from model.bundles.translation import fill
from model.errors import UserError
from model.networks.architectures import model_config
from model.networks.network import Network
from model.runs.paths import FIRST_WEIGHTS
from model.shards.manifest import read_manifest
from model.text.tokenizer import TokenizerPair
from pipelines.config import Config
from pipelines.corpus.sharded import shard_command, training_file
from pipelines.tasks import kept

logger = logging.getLogger(__name__)

FILE, KEY = FIRST_WEIGHTS, "train.init_from"
MAY_DIFFER = ("name", "dropout", "attention_dropout", "activation_dropout")


def initialise(config: Config, network: Network, tokenizers: TokenizerPair) -> None:
    """Gives `network` the weights that the configuration asks for; without any it keeps its random ones.

    Raises:
        UserError: nothing has that name, the bundle has another network or vocabulary, or word vectors are set too.
    """
    wanted = config.train.init_from
    if wanted is None:
        return
    if config.embeddings.references:
        raise UserError(f"{KEY}={wanted}: brings embeddings of its own; leave embeddings.source and .target out")
    if kept_record(config):
        fill(network, load_file(config.run_dir / FILE), str(config.run_dir / FILE))
        return
    directory = config.bundle_dir(wanted, KEY)
    facts = read_facts(directory)
    check_files(directory, facts["files"])
    check_fit(config, facts, tokenizers, f"{KEY}={wanted}")
    fill(network, load_file(directory / WEIGHTS), f"{KEY}={wanted}")


def check_fit(config: Config, facts: Mapping[str, Any], tokenizers: TokenizerPair, told: str) -> None:
    """Refuses a bundle whose weights mean something else in this run's network; `told` begins the message.

    Raises:
        UserError: names the setting, both values and what may be done.
    """
    ours, theirs = vars(model_config(config.model)), facts["model"]
    for key in ours:
        if key not in MAY_DIFFER and key in theirs and theirs[key] != ours[key]:
            raise UserError(f"{told}: was trained with model.{key}={theirs[key]}, this network has {ours[key]}")
    if vocabularies(facts["tokenizer"]) != vocabularies(tokenizers.describe()):
        file = training_file(read_manifest(config.shard_dir), config.corpus.train.file)
        raise UserError(
            f"{told}: its tokenizer is not that of the shards in {config.shard_dir}. Make shards with its tokenizer: "
            f"{shard_command(*file, f'tokenizer.same_as={config.train.init_from}', beside=config.paths.shards)}"
        )


def vocabularies(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns side -> sha256 of its tokenizer, by `TokenizerPair.describe`: each side has its own tables."""
    return {entry["side"]: entry["sha256"] for entry in record["files"]}


def keep(config: Config) -> None:
    """Stores the initial weights of a new run and says what they are."""
    wanted = config.train.init_from
    if wanted is None or kept_record(config):
        return
    directory = config.bundle_dir(wanted, KEY)
    digest = bundle_hash(directory)
    record = {"reference": wanted, "digest": digest, "run": read_facts(directory).get("run")}
    kept.write(config.run_dir / FILE, load_file(directory / WEIGHTS), record)
    logger.info(f"{KEY}: the network begins with the weights of {wanted} ({digest[:12]})")


def kept_record(config: Config) -> dict[str, Any] | None:
    """Returns the run's record of its initial weights; None if it has none, or from another reference."""
    record = kept.note(config.run_dir / FILE)
    return record if record and record["reference"] == config.train.init_from else None


def identity(config: Config) -> dict[str, Any]:
    """Returns the setting's part of the run's identity; empty without it."""
    return {"init_from": config.train.init_from} if config.train.init_from else {}


def facts(config: Config) -> dict[str, Any]:
    """Returns the bundle's facts about the network's initial weights; empty if they were random."""
    record = kept_record(config) if config.train.init_from else None
    return {"init": record} if record else {}
