"""A folder of transformers: config.json, weights as safetensors, the tokenizer's files.

Weights that are pickles are never opened: to unpickle a file is to run what its author wrote.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = re.compile(r".*\.(bin|pt|pth|ckpt|pkl|pickle|h5|msgpack)")
NOT_WEIGHTS = re.compile(r".*(embed_positions\.weights?|position_ids)")  # computed anew


class Folder:
    """The files of a model's folder.

    Raises (constructor):
        UserError: no folder, no config.json, or one that is not JSON.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UserError(f"{path}: no such folder")
        self.path = path
        self.config = self.json(CONFIG)

    def json(self, name: str) -> dict[str, Any]:
        """Returns the object in the file `name`.

        Raises:
            UserError: no such file, or it holds no JSON object.
        """
        try:
            found = json.loads(self.file(name).read_bytes())
        except ValueError as problem:
            raise UserError(f"{self.path / name}: not JSON ({problem})") from None
        if not isinstance(found, dict):
            raise UserError(f"{self.path / name}: must be a JSON object, not {type(found).__name__}")
        return found

    def optional(self, name: str) -> dict[str, Any]:
        """Returns the object in the file `name`; empty if there is no such file. Raises as `json`."""
        return self.json(name) if (self.path / name).is_file() else {}

    def file(self, name: str) -> Path:
        """Returns the path of the file `name`.

        Raises:
            UserError: there is none; lists those that there are.
        """
        path = self.path / name
        if not path.is_file():
            there = ", ".join(sorted(one.name for one in self.path.iterdir() if one.is_file())) or "none"
            raise UserError(f"{self.path}: {name} is missing. Files: {there}")
        return path

    def setting(self, key: str, kind: type, default: Any = None) -> Any:
        """Returns a value of config.json; `default` if it is missing or null.

        Raises:
            UserError: a value of another type, or none and no default.
        """
        value = self.config.get(key)
        value = default if value is None else value
        right = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not right or (kind is int and isinstance(value, bool)):
            raise UserError(f"{self.path / CONFIG}: {key}={value!r}: must be of the type {kind.__name__}")
        return value

    def weight_files(self) -> list[Path]:
        """Returns the safetensors of the weights.

        Raises:
            UserError: there are none; weights that are pickles are named.
        """
        if (self.path / INDEX).is_file():
            names = self.json(INDEX).get("weight_map")
            if not isinstance(names, dict) or not all(Path(str(one)).name == one for one in names.values()):
                raise UserError(f"{self.path / INDEX}: weight_map must name files of this folder")
            return [self.file(name) for name in sorted(set(names.values()))]
        if not (self.path / WEIGHTS).is_file():
            for pickle in sorted(one.name for one in self.path.iterdir() if PICKLES.fullmatch(one.name)):
                raise UserError(refusal(f"{self.path / pickle}"))
        return [self.file(WEIGHTS)]

    def tensors(self) -> "Tensors":
        """Returns the weights as float32.

        Raises:
            UserError: no safetensors, or files that cannot be read.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        found: dict[str, Tensor] = {}
        for path in self.weight_files():
            try:
                found |= load_file(path)
            except SafetensorError as problem:
                raise UserError(f"{path}: not readable as safetensors ({problem})") from None
        return Tensors(found, str(self.path))

    def hashes(self) -> dict[str, str]:
        """Returns file -> sha256 of the configuration, the weights and the tokenizer's files."""
        kept = (".json", ".safetensors", ".spm", ".model")
        return {one.name: file_sha256(one) for one in sorted(self.path.iterdir()) if one.name.endswith(kept)}

    def license(self) -> str | None:
        """Returns the license that README.md names in its front matter; None if it names none."""
        path = self.path / "README.md"
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        front = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
        found = re.search(r"^license:\s*(\S.*?)\s*$", front.group(1), re.MULTILINE) if front else None
        return found.group(1) if found else None


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
        """Returns the tensor `name` in float32 and removes it from those that are left.

        Raises:
            UserError: there is none, it has another shape, or it holds no finite numbers.
        """
        if name not in self.left:
            raise UserError(f"{self.where}: the weights have no tensor {name!r}, which {CONFIG} asks for")
        tensor = self.left.pop(name)
        if tuple(tensor.shape) != shape:
            raise UserError(f"{self.where}: tensor {name!r} has shape {tuple(tensor.shape)}, {CONFIG} asks for {shape}")
        found = tensor.to(torch.float32)
        if not bool(found.isfinite().all()):
            raise UserError(f"{self.where}: tensor {name!r} holds nan or infinity")
        return found

    def either(self, names: tuple[str, ...], *shape: int) -> Tensor:
        """Returns the first of `names` that there is; removes them all: one tensor under several names."""
        first = next((name for name in names if name in self.left), names[0])
        found = self.take(first, *shape)
        for name in names:
            self.left.pop(name, None)
        return found

    def finish(self) -> None:
        """Raises UserError if tensors are left that nothing has taken: the model is another one than it says."""
        left = [name for name in self.left if not NOT_WEIGHTS.fullmatch(name)]
        if left:
            raise UserError(
                f"{self.where}: {len(left)} tensors have no place in this architecture, such as {min(left)!r}"
            )
