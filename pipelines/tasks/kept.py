"""What a run began with or was taught, kept in its directory: tensors, and where they are from, in one file.

Workers then need no registry, and a run that goes on has what it began with, wherever an alias points by then.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.files import atomic_path


def write(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """The file whole or not at all; its note stands in its head, under the file's own name."""
    with atomic_path(path) as part:  # torchrun's processes write the same at once
        save_file(dict(tensors), part, {path.stem: json.dumps(note)})


def note(path: Path) -> dict[str, Any] | None:
    """What was noted; None where nothing is kept."""
    if not path.is_file():
        return None
    with safe_open(path, framework="pt") as file:
        found: dict[str, Any] = json.loads(file.metadata()[path.stem])
    return found
