"""A run's initial or teachers' tensors, stored in its directory with their origin, in one file.

So workers need no registry, and a resumed run has its initial values even if an alias has moved.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from dragoman.model.files import atomic_path


def write(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Writes the file atomically; its note is in its header, under the file's own name."""
    with atomic_path(path) as part:  # torchrun's processes write the same file at once
        save_file(dict(tensors), part, {path.stem: json.dumps(note)})


def note(path: Path) -> dict[str, Any] | None:
    """Returns the note; None if there is no file."""
    if not path.is_file():
        return None
    with safe_open(path, framework="pt") as file:
        file_note: dict[str, Any] = json.loads(file.metadata()[path.stem])
    return file_note
