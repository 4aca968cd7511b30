"""`train.init_from` for networks that label: the encoder begins with the weights of a pre-trained one.

The other is a bundle of any encoder of the same kind of layers: masked or recurrent language models, translation models
(their encoder), other heads. Its weights are stored in the run's directory (init.safetensors) at the run's first start;
the head begins with random ones.
"""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from model.bundles.directory import bundle_hash, read_facts
from model.errors import UserError
from model.inference.kinds import open_bundle
from model.networks.heads import Head
from model.shards.manifest import read_manifest
from model.text.tokenizer import TokenizerPair
from pipelines.config import Config
from pipelines.corpus.sharded import shard_command, training_file
from pipelines.tasks import kept
from pipelines.tasks.warm_start import FILE, KEY, kept_record, vocabularies

logger = logging.getLogger(__name__)

# architecture of the head -> architecture of the other -> beginning of its tensors' names -> ours
STACK = {name: name for name in ("embedding.", "positions.", "layers.", "norm.")}
PARTS: dict[str, dict[str, dict[str, str]]] = {
    "transformer_head": {
        "bert": STACK,
        "transformer_head": STACK,
        "transformer": {
            "source_embedding.": "embedding.",
            "source_positions.": "positions.",
            "encoder.": "layers.",
            "encoder_norm.": "norm.",
        },
    },
    "recurrent_head": {
        "recurrent_head": {"embedding.": "embedding.", "encoder.": "encoder."},
        "rnnlm": {"embedding.": "embedding.", "recurrent.": "encoder."},
        "rnnenc": {"source_embedding.": "embedding.", "encoder.": "encoder."},
        "rnnsearch": {"source_embedding.": "embedding.", "encoder.": "encoder."},
    },
}
ALIKE = ("heads", "kv_heads", "norm", "norm_kind", "activation", "positions", "cell")  # not seen in any shape


def initialise(config: Config, network: Head, tokenizers: TokenizerPair) -> None:
    """Gives the encoder of `network` the weights that the configuration asks for.

    Raises:
        UserError: nothing has that name, or the bundle's encoder or vocabulary does not fit.
    """
    wanted = config.train.init_from
    if wanted is None:
        return
    if kept_record(config):
        weights, told = load_file(config.run_dir / FILE), str(config.run_dir / FILE)
    else:
        weights, told = encoder_weights(config, tokenizers), f"{KEY}={wanted}"
    check_shapes(network, weights, told)
    with torch.no_grad():
        network.load_state_dict(weights, strict=False)


def encoder_weights(config: Config, tokenizers: TokenizerPair) -> dict[str, Tensor]:
    """Returns the encoder's tensors of the bundle that `train.init_from` names, by our names.

    Raises:
        UserError: the bundle has no such encoder, was trained with other settings, or has another vocabulary.
    """
    wanted, ours = config.train.init_from, config.model
    directory = config.bundle_dir(wanted, KEY)
    facts, told = read_facts(directory), f"{KEY}={wanted}"
    known = PARTS[ours["architecture"]]
    if facts["architecture"] not in known:
        raise UserError(
            f"{told}: is a bundle of {facts['architecture']}, which has no encoder for {ours['architecture']}. "
            f"Choices: bundles of {', '.join(known)}"
        )
    for key in ALIKE:
        theirs = facts["model"].get(key)
        if key in ours and theirs is not None and theirs != ours[key]:
            raise UserError(f"{told}: was trained with model.{key}={theirs}, this network has {ours[key]}")
    check_vocabulary(config, facts, tokenizers, told)
    prefixes = known[facts["architecture"]]
    bundle: Any = open_bundle(directory)
    return {
        new + name.removeprefix(old): tensor.detach().clone()
        for name, tensor in bundle.network.state_dict().items()
        for old, new in prefixes.items()
        if name.startswith(old)
    }


def check_vocabulary(config: Config, facts: Mapping[str, Any], tokenizers: TokenizerPair, told: str) -> None:
    """Raises UserError unless the bundle reads its texts with the tokenizer of these shards."""
    theirs, ours = vocabularies(facts["tokenizer"]), vocabularies(tokenizers.describe())
    if theirs.get("both", theirs.get("source")) != ours["source"]:
        file = training_file(read_manifest(config.shard_dir), config.corpus.train.file)
        raise UserError(
            f"{told}: its tokenizer is not that of the shards in {config.shard_dir}. Make shards with its tokenizer: "
            f"{shard_command(*file, f'tokenizer.same_as={config.train.init_from}', beside=config.paths.shards)}"
        )


def check_shapes(network: Head, weights: Mapping[str, Tensor], told: str) -> None:
    """Raises UserError if a part of the encoder is missing, is too much, or has another shape; both are named."""
    own = {name: value for name, value in network.state_dict().items() if not name.startswith(("output.", "pool."))}
    for name in sorted(own.keys() | weights.keys()):
        ours, theirs = (
            "none" if tensor is None else str(tuple(tensor.shape)) for tensor in (own.get(name), weights.get(name))
        )
        if ours != theirs:
            raise UserError(
                f"{told}: {name} is {theirs} there and {ours} in this network; the sizes of its encoder must "
                f"be those of the bundle"
            )


def keep(config: Config, tokenizers: TokenizerPair) -> None:
    """Stores the encoder's initial weights of a new run and says what they are."""
    wanted = config.train.init_from
    if wanted is None or kept_record(config):
        return
    directory = config.bundle_dir(wanted, KEY)
    digest = bundle_hash(directory)
    record = {"reference": wanted, "digest": digest, "run": read_facts(directory).get("run")}
    kept.write(config.run_dir / FILE, encoder_weights(config, tokenizers), record)
    logger.info(f"{KEY}: the encoder begins with the weights of {wanted} ({digest[:12]})")
