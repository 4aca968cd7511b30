"""`train.init_parts`: parts of a network begin with the weights of other models, each part with those of one.

A masked model may start an encoder and a causal one a decoder, of the same kind of layers and sizes. What the other
lacks, such as a decoder's attention to the source, begins with random weights. The rows of tables and output layers
belong to the pieces of a vocabulary: `train.init_vocabulary=join` copies the rows of pieces that both have,
and the others begin with random ones. The run's directory has the weights (init.safetensors) from its first start.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.model.bundles.directory import bundle_hash, read_facts
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.model.networks.part_names import LAYERS, PARTS, check_part
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer import SPECIAL, Tokenizer, TokenizerPair
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import shard_command, training_file

logger = logging.getLogger(__name__)

STACKS = ("encoder", "decoder")
ALIKE = ("heads", "kv_heads", "norm", "norm_kind", "activation", "positions", "cell")  # not seen in any shape
ROWS = ".rows"  # ends the name of the token ids whose rows a stored tensor has
ACROSS = "cross_"  # what a decoder has beside a stack of one language


@dataclass
class PartTensors:
    """The tensors that one bundle gives to a part, by our names, and their record."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)


def references(config: Config) -> dict[str, str]:
    """Returns part -> the model that it begins with; empty if the network begins as a whole, or with random weights."""
    train, parts = config.train, PARTS.get(config.model["architecture"], {})
    if train.init_parts.named and train.init_from:
        raise UserError(f"train.init_parts: train.init_from={train.init_from} starts the whole network; choose one")
    if train.init_from and parts.keys() == {"embeddings", "encoder", "output"} and "head" in config.model:
        return dict.fromkeys(("embeddings", "encoder"), train.init_from)
    if train.init_from and train.init_vocabulary == "join":
        tied = config.model.get("tie") not in (None, False, "none")
        return {part: train.init_from for part in parts if part != "output" or not tied}
    if train.init_vocabulary == "join" and not train.init_parts.named:
        raise UserError("train.init_vocabulary=join: needs train.init_from or train.init_parts")
    return train.init_parts.named


def told_of(config: Config, part: str, reference: str) -> str:
    """Returns the setting that names a part's model, for a message."""
    return f"train.init_from={reference}" if config.train.init_from else f"train.init_parts.{part}={reference}"


def take(config: Config, tokenizers: TokenizerPair) -> dict[str, PartTensors]:
    """Returns part -> what it begins with."""
    opened: dict[str, Any] = {}
    parts_taken: dict[str, PartTensors] = {}
    for part, reference in references(config).items():
        word = told_of(config, part, reference)
        ours = check_part("train.init_parts", part, config.model["architecture"])
        directory = config.bundle_dir(reference, word.partition("=")[0])
        facts = read_facts(directory)
        theirs = their_part(config, part, facts, word)
        if reference not in opened:
            bundle: Any = open_bundle(directory)
            opened[reference] = bundle.network.state_dict()
        tensors = {
            new + name.removeprefix(old): tensor.detach()
            for name, tensor in opened[reference].items()
            for old, new in theirs.items()
            if name.startswith(old)
        }
        taken = PartTensors(record={"reference": reference, "digest": bundle_hash(directory), "run": facts.get("run")})
        if part in STACKS:
            taken.tensors = named(tensors, ours)
        else:
            their_pair = load_pair(directory, facts["tokenizer"])
            taken.tensors, taken.record["rows"] = fit_rows(config, part, tensors, their_pair, tokenizers, word)
        parts_taken[part] = taken
    return parts_taken


def merged(taken: Mapping[str, PartTensors]) -> dict[str, Tensor]:
    return {name: tensor.clone() for part_taken in taken.values() for name, tensor in part_taken.tensors.items()}


def their_part(config: Config, part: str, facts: Mapping[str, Any], word: str) -> Mapping[str, str]:
    """Returns the prefixes of the bundle's tensors for a part; a network with one stack gives it for either."""
    ours, theirs = config.model["architecture"], facts["architecture"]
    have = PARTS.get(theirs, {})
    stacks = [name for name in STACKS if name in have]
    own_part = stacks[0] if part in STACKS and part not in have and stacks else part
    fits = part not in STACKS or LAYERS.get(theirs) == LAYERS[ours]
    if own_part not in have or not fits:
        choices = [name for name in PARTS if part not in STACKS or LAYERS[name] == LAYERS[ours]]
        raise UserError(
            f"{word}: is a bundle of {theirs}, which has no {part} for {ours}. Choices: bundles of {', '.join(choices)}"
        )
    for key in ALIKE if part in STACKS else ():
        trained_with = facts["model"].get(key)
        if key in config.model and trained_with is not None and trained_with != config.model[key]:
            raise UserError(
                f"{word}: was trained with model.{key}={trained_with}, this network has {config.model[key]}"
            )
    return have[own_part]


def named(tensors: Mapping[str, Tensor], ours: Mapping[str, str]) -> dict[str, Tensor]:
    """Returns the tensors by the names of our network."""
    back = sorted(((new, old) for old, new in ours.items()), key=lambda pair: -len(pair[0]))
    tensors_named = {}
    for name, tensor in tensors.items():
        new, old = next((pair for pair in back if name.startswith(pair[0])), ("", ""))
        tensors_named[old + name.removeprefix(new)] = tensor
    return tensors_named


def fit_rows(
    config: Config, part: str, tensors: Mapping[str, Tensor], theirs: TokenizerPair, ours: TokenizerPair, word: str
) -> tuple[dict[str, Tensor], dict[str, dict[str, int]]]:
    """Returns the rows of tables or of the output layer by our names, and kept, new and dropped rows by table."""
    prefixes = PARTS[config.model["architecture"]][part]
    if part == "output" and "head" in config.model:  # its rows are labels
        return named(tensors, prefixes), {}
    head_weights = {
        name: tensor for name, tensor in named(tensors, prefixes).items() if part == "output" and "head" in name
    }
    offered: dict[str, tuple[Tokenizer, dict[str, Tensor]]] = {}  # side -> tokenizer, its tensors
    for name, tensor in tensors.items():
        side, _, kind = name.rpartition(".") if part == "embeddings" else ("target", ".", name)
        if name not in head_weights and "head" not in name:
            tokenizer = theirs.target if side == "target" else theirs.source
            offered.setdefault(side, (tokenizer, {}))[1][kind] = tensor
    counts = {}
    for table, canonical in prefixes.items():
        if "head" in table:
            continue
        side = canonical.removesuffix(".") or "target"
        tokenizer = ours.target if side == "target" else ours.source
        order = sorted(offered, key=lambda side_offered: side_offered != side)  # the same side first
        chosen = next(
            (side_offered for side_offered in order if offered[side_offered][0].serialise() == tokenizer.serialise()),
            None,
        )
        pairs = [(number, number) for number in range(tokenizer.vocabulary)]
        joined = chosen is None and config.train.init_vocabulary == "join"
        if joined:
            chosen = max(order, key=lambda side_offered: len(common(tokenizer, offered[side_offered][0])))
            pairs = common(tokenizer, offered[chosen][0])
            if len(pairs) <= len(SPECIAL):
                raise UserError(
                    f"{word}: its vocabulary has no piece of the one of {config.shard_dir}. Choices: leave {part} out, "
                    f"or make shards with its tokenizer (tokenizer.same_as)"
                )
        if chosen is None:
            continue
        for kind, tensor in offered[chosen][1].items():
            head_weights[table + kind] = tensor[[there for _, there in pairs]] if joined else tensor
            if joined:
                head_weights[table + kind + ROWS] = torch.tensor([mine for mine, _ in pairs])
        size = offered[chosen][0].vocabulary
        counts[table.removesuffix(".")] = {
            "kept": len(pairs), "new": tokenizer.vocabulary - len(pairs), "dropped": size - len(pairs),
        }  # fmt: skip
    if not counts:
        raise UserError(other_vocabulary(config, word))
    return head_weights, counts


def common(ours: Tokenizer, theirs: Tokenizer) -> list[tuple[int, int]]:
    """Returns (our id, their id) of every piece that both have."""
    first = len(SPECIAL)
    there = {piece: number for number, piece in enumerate(theirs.pieces(range(theirs.vocabulary)))}
    pieces = enumerate(ours.pieces(range(first, ours.vocabulary)), first)
    same = [(number, there[piece]) for number, piece in pieces if there.get(piece, 0) >= first]
    return [(number, number) for number in range(first)] + same


def other_vocabulary(config: Config, word: str) -> str:
    """Returns the message for a model of another vocabulary."""
    file = training_file(read_manifest(config.shard_dir), config.corpus.train.file)
    reference = word.partition("=")[2]
    return (
        f"{word}: its tokenizer is not that of the shards in {config.shard_dir}. Make shards with its tokenizer: "
        f"{shard_command(*file, f'tokenizer.same_as={reference}', beside=config.paths.shards)}; or copy the rows of "
        f"pieces that both have: train.init_vocabulary=join"
    )


def fill_parts(config: Config, network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    state = network.state_dict()
    for part, reference in references(config).items():
        word, prefixes = told_of(config, part, reference), tuple(PARTS[config.model["architecture"]][part])
        if part == "output" and shared_output(network):
            raise UserError(f"{word}: the output layer is the table of embeddings (model.tie); name embeddings instead")
        ours = {name for name in state if name.startswith(prefixes)}
        theirs = {name for name in weights if name.startswith(prefixes) and not name.endswith(ROWS)}
        if part == "embeddings":
            ours &= theirs  # a table of another language than the bundle's stays as it is
        for name in sorted(ours | theirs):
            if ACROSS in name and part in STACKS and not (name in ours and name in theirs):
                continue  # a decoder's attention to the source, which stacks of one language lack
            here, there = state.get(name), weights.get(name)
            if here is not None and name + ROWS in weights:
                here = here[weights[name + ROWS]]
            shapes = ["none" if tensor is None else str(tuple(tensor.shape)) for tensor in (there, here)]
            if shapes[0] != shapes[1]:
                raise UserError(
                    f"{word}: {name} is {shapes[0]} there and {shapes[1]} in this network; the sizes of its {part} "
                    f"must be those of the bundle"
                )
    with torch.no_grad():
        for name, tensor in weights.items():
            if name in state:
                state[name][weights.get(name + ROWS, slice(None))] = tensor


def shared_output(network: nn.Module) -> bool:
    """Returns True if the output layer is a table of embeddings."""
    weight = network.get_parameter("output.weight")
    return any(isinstance(module, nn.Embedding) and module.weight is weight for module in network.modules())


def describe(config: Config, records: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line per part: the model that it begins with, and the rows that were kept, new and dropped."""
    for part, record in records.items():
        rows = "; ".join(
            f"{table}: {count['kept']:,} rows kept, {count['new']:,} new, {count['dropped']:,} dropped"
            for table, count in record.get("rows", {}).items()
        )
        reference, digest = record["reference"], record["digest"][:12]
        key = told_of(config, part, reference).partition("=")[0]
        yield f"{key}: the {part} begins with the weights of {reference} ({digest}){f'; {rows}' if rows else ''}"
