"""Starts from other models: a network begins with another's weights instead of random ones.

`train.init_from` gives the whole network: a bundle of the same network, except dropout, and of the same vocabulary
(`tokenizer.same_as`). Parts and other vocabularies are in `part_start.py`. The weights are stored in the run's
directory (init.safetensors) at the run's first start.
"""

import logging
from collections.abc import Mapping
from typing import Any

from safetensors.torch import load_file

from dragoman.model.bundles.directory import WEIGHTS, bundle_hash, check_files, read_facts
from dragoman.model.bundles.weights import fill
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import model_config
from dragoman.model.networks.network import Network
from dragoman.model.runs.paths import FIRST_WEIGHTS
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks import kept, lora, part_start, parts, quantise

logger = logging.getLogger(__name__)

FILE, KEY = FIRST_WEIGHTS, "train.init_from"
MAY_DIFFER = ("name", "dropout", "attention_dropout", "activation_dropout")


def initialise(config: Config, network: Network, tokenizers: TokenizerPair) -> None:
    """Gives `network` the weights that the configuration asks for, and sets what is trained, and how.

    Without any it keeps its random ones.
    """
    if by_parts := part_start.references(config):
        weights = load_file(config.run_dir / FILE) if kept_record(config) else part_start.weights(config, tokenizers)
        refuse_embeddings(config, "embeddings" in by_parts, "train.init_parts.embeddings")
        part_start.fill_parts(config, network, weights)
    elif config.train.init_from:
        refuse_embeddings(config, True, f"{KEY}={config.train.init_from}")
        fill(network, *whole(config, tokenizers))
    parts.freeze(config, network)
    lora.adapt(config, network)
    quantise.adapt(config, network)


def refuse_embeddings(config: Config, brings: bool, where: str) -> None:
    """Raises UserError if both another model and word vectors give the tables."""
    if brings and config.embeddings.references:
        raise UserError(f"{where}: brings embeddings of its own; leave embeddings.source and .target out")


def whole(config: Config, tokenizers: TokenizerPair) -> tuple[Mapping[str, Any], str]:
    """Returns the weights of a whole network, and where they come from."""
    if kept_record(config):
        return load_file(config.run_dir / FILE), str(config.run_dir / FILE)
    where = f"{KEY}={config.train.init_from}"
    directory = config.bundle_dir(config.train.init_from, KEY)
    facts = read_facts(directory)
    check_files(directory, facts["files"])
    check_fit(config, facts, tokenizers, where)
    return load_file(directory / WEIGHTS), where


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


def keep(config: Config, tokenizers: TokenizerPair) -> None:
    """Stores the initial weights of a new run and says what they are."""
    if not asked(config) or kept_record(config):
        return
    if part_start.references(config):
        taken = part_start.take(config, tokenizers)
        record: dict[str, Any] = {
            "asked": asked(config),
            "parts": {part: part_taken.record for part, part_taken in taken.items()},
        }
        kept.write(config.run_dir / FILE, part_start.merged(taken), record)
        for line in part_start.describe(config, taken):
            logger.info(line)
        return
    reference = config.train.init_from
    directory = config.bundle_dir(reference, KEY)
    digest = bundle_hash(directory)
    record = {"reference": reference, "digest": digest, "run": read_facts(directory).get("run")}
    kept.write(config.run_dir / FILE, load_file(directory / WEIGHTS), record)
    logger.info(f"{KEY}: the network begins with the weights of {reference} ({digest[:12]})")


def asked(config: Config) -> dict[str, Any]:
    """Returns the settings that the initial weights depend on; empty if they are random."""
    train = config.train
    beginnings: dict[str, Any] = {"init_from": train.init_from} if train.init_from else {}
    if train.init_parts.named:
        beginnings["init_parts"] = train.init_parts.named
    return {**beginnings, "init_vocabulary": "join"} if train.init_vocabulary == "join" else beginnings


def kept_record(config: Config) -> dict[str, Any] | None:
    """Returns the run's record of its initial weights; None if it has none, or from other references."""
    record = kept.note(config.run_dir / FILE)
    if record is None:
        return None
    return record if record.get("asked", {"init_from": record.get("reference")}) == asked(config) else None


def identity(config: Config) -> dict[str, Any]:
    """Returns the settings' part of the run's identity; empty without them."""
    train = config.train
    frozen: dict[str, Any] = {"freeze": sorted(train.freeze)} if train.freeze else {}
    rates = {"lr_scale": train.lr_scale.changed} if train.lr_scale.changed else {}
    return {**asked(config), **frozen, **rates, **lora.identity(config), **quantise.identity(config)}


def facts(config: Config) -> dict[str, Any]:
    """Returns the bundle's facts about the network's initial weights and what was trained; empty without settings."""
    record = kept_record(config) if asked(config) else None
    return {**({"init": record} if record else {}), **lora.identity(config), **quantise.identity(config)}
