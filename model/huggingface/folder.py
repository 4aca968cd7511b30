"""A folder of transformers: config.json, weights as safetensors, the tokenizer's files.

Weights that are pickles are never opened: to unpickle a file is to run what its author wrote.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.networks.network import Network, Tie
from dragoman.model.text.tokenizer import TokenizerPair


@dataclass(frozen=True)
class ImportOptions:
    """The languages, and the tokens that a multilingual model is told them by."""

    source_language: str
    target_language: str
    source_token: str | None = None  # of the source's language; None: found by its code
    target_token: str | None = None


@dataclass(frozen=True)
class Imported:
    """A network with its weights, its tokenizers, and what there is to tell about it."""

    network: Network
    tokenizers: TokenizerPair
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def config(self) -> Any:
        return self.network.config


CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = re.compile(r".*\.(bin|pt|pth|ckpt|pkl|pickle|h5|msgpack)")
NOT_WEIGHTS = re.compile(  # computed anew, the same again, or for other tasks
    r".*(embed_positions\.weights?|position_ids|inv_freq|attn\.(masked_)?bias)|"
    r"(pooler|cls\.seq_relationship)\..*"
)


class Folder:
    """The files of a model's folder."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UserError(f"{path}: no such folder")
        self.path = path
        self.config = self.json(CONFIG)

    def json(self, name: str) -> dict[str, Any]:
        """Returns the object in the file `name`."""
        try:
            content = json.loads(self.file(name).read_bytes())
        except (ValueError, RecursionError) as problem:
            raise UserError(f"{self.path / name}: not JSON ({problem})") from None
        if not isinstance(content, dict):
            raise UserError(f"{self.path / name}: must be a JSON object, not {type(content).__name__}")
        return content

    def optional(self, name: str) -> dict[str, Any]:
        """Returns the object in the file `name`; empty if there is no such file."""
        return self.json(name) if (self.path / name).is_file() else {}

    def file(self, name: str) -> Path:
        """Returns the path of the file `name`."""
        path = self.path / name
        if not path.is_file():
            there = ", ".join(sorted(path.name for path in self.path.iterdir() if path.is_file())) or "none"
            raise UserError(f"{self.path}: {name} is missing. Files: {there}")
        return path

    def setting(self, key: str, kind: type, default: Any = None) -> Any:
        """Returns a value of config.json; `default` if it is missing or null."""
        value = self.config.get(key)
        value = default if value is None else value
        right = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not right or (kind is not bool and isinstance(value, bool)):
            raise UserError(f"{self.path / CONFIG}: {key}={value!r}: must be of the type {kind.__name__}")
        if kind is float and not math.isfinite(value):
            raise UserError(f"{self.path / CONFIG}: {key}={value!r}: must be a finite number")
        return value

    def weight_files(self) -> list[Path]:
        """Returns the safetensors of the weights."""
        if (self.path / INDEX).is_file():
            names = self.json(INDEX).get("weight_map")
            if not isinstance(names, dict) or not all(
                Path(str(weight_file)).name == weight_file for weight_file in names.values()
            ):
                raise UserError(f"{self.path / INDEX}: weight_map must name files of this folder")
            return [self.file(name) for name in sorted(set(names.values()))]
        if not (self.path / WEIGHTS).is_file():
            for pickle in sorted(path.name for path in self.path.iterdir() if PICKLES.fullmatch(path.name)):
                raise UserError(refusal(f"{self.path / pickle}"))
        return [self.file(WEIGHTS)]

    def tensors(self) -> "Tensors":
        """Returns the weights as float32."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        weights: dict[str, Tensor] = {}
        for path in self.weight_files():
            try:
                weights |= load_file(path)
            except SafetensorError as problem:
                raise UserError(f"{path}: not readable as safetensors ({problem})") from None
        return Tensors(weights, str(self.path))

    def hashes(self) -> dict[str, str]:
        """Returns file -> sha256 of the configuration, the weights and the tokenizer's files."""
        kept = (".json", ".safetensors", ".spm", ".model")
        files = (path for path in sorted(self.path.iterdir()) if path.is_file() and path.name.endswith(kept))
        return {path.name: file_sha256(path) for path in files}

    def front_matter(self, key: str) -> str | None:
        """Returns what README.md says of a key, such as the license, in its front matter; None if it does not."""
        path = self.path / "README.md"
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        front = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
        match = re.search(rf"^{key}:\s*(\S.*?)\s*$", front.group(1), re.MULTILINE) if front else None
        return match.group(1) if match else None


def refusal(path: str) -> str:
    """Returns the message about weights that are a pickle."""
    return (
        f"{path} is a pickle, which can run any code; convert it where you trust it: python -c 'from transformers "
        f'import AutoModelForSeq2SeqLM as M; M.from_pretrained("FOLDER").save_pretrained("SAFE")\''
    )


class Tensors:
    """Weights by their names, each taken once."""

    def __init__(self, tensors: Mapping[str, Tensor], where: str) -> None:
        self.left = dict(tensors)
        self.where = where

    def __contains__(self, name: str) -> bool:
        return name in self.left

    def take(self, name: str, *shape: int) -> Tensor:
        """Returns the tensor `name` in float32 and removes it from those that are left."""
        if name not in self.left:
            raise UserError(f"{self.where}: the weights have no tensor {name!r}, which {CONFIG} asks for")
        tensor = self.left.pop(name)
        if tuple(tensor.shape) != shape:
            raise UserError(f"{self.where}: tensor {name!r} has shape {tuple(tensor.shape)}, {CONFIG} asks for {shape}")
        weights = tensor.to(torch.float32)
        if not bool(weights.isfinite().all()):
            raise UserError(f"{self.where}: tensor {name!r} holds nan or infinity")
        return weights

    def tables(self, sizes: tuple[int, int], width: int, *, shared: bool, tied: bool) -> "Tables":
        """Takes the tables of both sides and of the output layer; the file has one of them, or all by name."""
        names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
        common, output = "model.shared.weight", "lm_head.weight"
        held = {
            name: self.take(name, size, width)
            for name, size in zip((*names, common, output), (*sizes, sizes[0], sizes[1]), strict=True)
            if name in self
        }
        shared_table = next((held[name] for name in (common, *names) if name in held), None) if shared else None
        source, target = (held.get(name, shared_table) for name in names)
        last = held.get(output, target if tied else None)
        for name, table in zip((*names, output), (source, target, last), strict=True):
            if table is None:
                raise UserError(f"{self.where}: the weights have no tensor {name!r}, which {CONFIG} asks for")
        assert source is not None and target is not None and last is not None
        same = [table for name, table in held.items() if shared or name not in (names[0], common)]
        if tied and not all(torch.equal(table, target) for table in same):
            raise UserError(
                f"{self.where}: {CONFIG} ties {', '.join(held)}, which differ. tie_word_embeddings=false there imports "
                "them as they are"
            )
        return Tables(source, target, last)

    def finish(self) -> None:
        """Raises UserError if tensors are left that nothing has taken: the model is another one than it says."""
        left = [name for name in self.left if not NOT_WEIGHTS.fullmatch(name)]
        if left:
            raise UserError(
                f"{self.where}: {len(left)} tensors have no place in this architecture, such as {min(left)!r}"
            )


class Tables(NamedTuple):
    """Tables (V, D) of the two sides and of the output layer; some may be equal."""

    source: Tensor
    target: Tensor
    output: Tensor

    def tie(self, *, shared: bool) -> Tie:
        """Returns which of them are one for us."""
        one_input = shared and torch.equal(self.source, self.target)
        if torch.equal(self.target, self.output):
            return "all" if one_input else "target"
        return "inputs" if one_input else "none"
