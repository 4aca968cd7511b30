"""The checkpoints of a run, and the weights kept for averaging: lists them and checks each file.

RUN/checkpoints/step-00000100/   network.safetensors, optimizer.safetensors, [average.safetensors,]
                                 [carried.safetensors: the states that lanes of text continue from,] state.json
                                 word vectors: tables.safetensors, state.json
                                 manifest.json: {format_version, step, attempt, files: {name: sha256}}
RUN/weights/step-00000100.safetensors   the network alone, kept for averaging after its checkpoint is gone
RUN/weights/step-00000100.sha256        its hash, as `sha256sum --check` reads it

A checkpoint is a directory that is written completely or not at all. `pipelines/training/checkpoint.py` writes and
reads the tensors.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.runs.paths import CHECKPOINTS, WEIGHTS
from dragoman.model.untrusted import read_json

FORMAT_VERSION = 3
MANIFEST, STATE = "manifest.json", "state.json"
NAME = re.compile(r"step-(\d{1,10})", re.ASCII)


def folder(run: Path, step: int) -> Path:
    return run / CHECKPOINTS / f"step-{step:08d}"


def weights(run: Path, step: int) -> Path:
    """Returns the file of a step's kept weights."""
    return run / WEIGHTS / f"step-{step:08d}.safetensors"


def every(run: Path) -> dict[int, Path]:
    """Returns step -> complete checkpoint, in order."""
    return _numbered(run / CHECKPOINTS, "")


def newest(run: Path) -> Path | None:
    """Returns the newest complete checkpoint."""
    return next(reversed(every(run).values()), None)


def newest_step(run: Path) -> int:
    """Returns the step of the newest checkpoint; 0 for none."""
    return max(every(run), default=0)


def last(run: Path) -> Path:
    """Like `newest`, for a run that must have one."""
    step = newest(run)
    if step is None:
        raise UserError(f"{run}: no checkpoint; the run has not got that far")
    return step


def weights_by_step(run: Path) -> dict[int, Path]:
    """Returns step -> the file of the weights that were kept of it, in order."""
    return _numbered(run / WEIGHTS, ".safetensors")


def check(checkpoint: Path) -> dict[str, str]:
    """Returns name -> sha256 (hex) of a checkpoint's files, after comparing each with the file on the disk."""
    files: dict[str, str] = manifest(checkpoint)["files"]
    for name in files:
        _check(checkpoint, name, files)
    return files


def state(checkpoint: Path) -> dict[str, Any]:
    """Returns the plain part of a checkpoint, checked against the manifest."""
    _check(checkpoint, STATE, manifest(checkpoint)["files"])
    values: dict[str, Any] = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    return values


def recorded_hash(path: Path) -> str:
    """Returns the sha256 (hex) stored beside weights, after checking it."""
    note = path.with_suffix(".sha256")
    if not note.is_file():
        raise UserError(
            f"{path}: no sha256 was kept beside it, so nobody can tell whether it was changed. Delete it, and the "
            f"average is of one checkpoint less"
        )
    expected, actual = note.read_text(encoding="utf-8").partition(" ")[0], file_sha256(path)
    if actual != expected:
        raise UserError(
            f"{path}: was changed after it was written (sha256 {actual[:12]}..., expected {expected[:12]}...). Delete "
            f"it and the average is of one checkpoint less, or take the last weights alone: train.final_weights=last"
        )
    return expected


def manifest(checkpoint: Path) -> dict[str, Any]:
    """Returns the manifest of a checkpoint. Raises UserError if it is damaged or of another version."""
    path = checkpoint / MANIFEST
    content = read_json(path, _remedy(checkpoint))
    if content is None:
        raise UserError(f"{path}: missing. {_remedy(checkpoint)}")
    if content.get("format_version") != FORMAT_VERSION:
        version = content.get("format_version")
        raise UserError(
            f"{path}: format_version {version!r}, and this program reads {FORMAT_VERSION}. Choose another name= to "
            f"begin a new run"
        )
    return content


def _check(checkpoint: Path, name: str, files: Mapping[str, str]) -> None:
    """Raises UserError unless the file `name` has the sha256 in the manifest's `files`."""
    path = checkpoint / name
    if not path.is_file():
        raise UserError(f"{path}: missing, though it is a part of the checkpoint. {_remedy(checkpoint)}")
    actual, expected = file_sha256(path), files.get(name, "")
    if actual != expected:
        raise UserError(
            f"{path}: does not match its manifest (sha256 {actual[:12]}..., expected {expected[:12]}...): "
            f"it was changed after it was written. {_remedy(checkpoint)}"
        )


def _remedy(checkpoint: Path) -> str:
    older = [path for path in _numbered(checkpoint.parent, "").values() if path != checkpoint]
    then = f"the run goes on from {max(older).name}" if older else "the run starts again"
    return f"Delete {checkpoint} and {then}"


def _numbered(folder: Path, suffix: str) -> dict[int, Path]:
    matches = ((NAME.fullmatch(path.name.removesuffix(suffix)), path) for path in folder.glob(f"step-*{suffix}"))
    return dict(sorted((int(match.group(1)), path) for match, path in matches if match))
