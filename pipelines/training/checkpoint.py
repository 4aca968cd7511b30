"""A checkpoint is a directory that is written whole or not at all, and carries its own manifest.

RUN/checkpoints/step-00000100/   network.safetensors, optimizer.safetensors, [average.safetensors,]
                                 [carried.safetensors: the states that lanes of text go on from,] state.json
                                 word vectors: tables.safetensors, state.json
                                 manifest.json: {format_version, step, attempt, files: {name: sha256}}
RUN/weights/step-00000100.safetensors   the network alone, kept for averaging after its checkpoint is gone
RUN/weights/step-00000100.sha256        its hash, as `sha256sum --check` reads it
RUN/attempt                             a number that grows with every start: a stale worker sees it and stops
"""

import json
import logging
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.errors import UserError
from model.files import atomic_directory, atomic_path, atomic_write, file_sha256, synchronise

logger = logging.getLogger(__name__)
FORMAT_VERSION = 1
MANIFEST = "manifest.json"


def write(
    run: Path,
    step: int,
    attempt: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    plain: Mapping[str, Any],
    keep_weights: bool = True,
) -> Path:
    """One checkpoint from groups of tensors (one file each) and plain state; returns its directory.

    `keep_weights`: keep the network's weights for averaging too. Those of a checkpoint that the clock or a signal made
    are not kept: the final model must depend on steps alone.

    Raises:
        StaleAttemptError: another start of the same run has taken over.
        OSError: the disk is full; nothing half-written is left.
    """
    check_attempt(run, attempt)
    final = run / "checkpoints" / f"step-{step:08d}"
    try:
        with atomic_directory(final) as part:  # replaces that of an attempt that died after this step
            for group, members in tensors.items():
                held = {name: value.detach().cpu().contiguous() for name, value in members.items()}
                save_file(held, part / f"{group}.safetensors")
            (part / "state.json").write_text(json.dumps(plain, sort_keys=True), encoding="utf-8")
            files = {path.name: file_sha256(path) for path in sorted(part.iterdir())}
            manifest = {"format_version": FORMAT_VERSION, "step": step, "attempt": attempt, "files": files}
            (part / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True), encoding="utf-8")
            for path in part.iterdir():  # here already, for that takes time: the check comes right before the rename
                synchronise(path)
            check_attempt(run, attempt)
    except SafetensorError as problem:  # safetensors wraps the system's error: "No space left on device (os error 28)"
        if "os error 28" in str(problem):
            raise OSError(28, "No space left on device", str(final)) from problem
        raise
    if keep_weights:
        _keep_weights(run, final, step)
    return final


def newest(run: Path) -> Path | None:
    """The newest complete checkpoint."""
    return max(_list_numbered(run / "checkpoints", ""), default=(0, None), key=lambda pair: pair[0])[1]


def last(run: Path) -> Path:
    """The same of a run that must have one.

    Raises:
        UserError: it has none.
    """
    found = newest(run)
    if found is None:
        raise UserError(f"{run}: no checkpoint; the run has not got that far")
    return found


def read(checkpoint: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """(groups of tensors, state), every file checked against the manifest.

    Raises:
        UserError: a file is missing or is not the one that was written.
    """
    files = check(checkpoint)
    groups = {Path(n).stem: load_file(checkpoint / n) for n in files if n.endswith(".safetensors")}
    return groups, state(checkpoint)


def check(checkpoint: Path) -> dict[str, str]:
    """Name -> sha256 (hex) of the files of a checkpoint, each compared with what lies there.

    Raises:
        UserError: a file is missing or is not the one that was written.
    """
    files: dict[str, str] = _manifest(checkpoint)["files"]
    for name in files:
        _check(checkpoint, name, files)
    return files


def every(run: Path) -> dict[int, Path]:
    """Step -> complete checkpoint, in order."""
    return dict(sorted(_list_numbered(run / "checkpoints", "")))


def state(checkpoint: Path) -> dict[str, Any]:
    """The plain part of a checkpoint, checked against the manifest.

    Raises:
        UserError: it is missing or is not what was written.
    """
    _check(checkpoint, "state.json", _manifest(checkpoint)["files"])
    values: dict[str, Any] = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
    return values


def prune(run: Path, keep_checkpoints: int, wanted: Callable[[list[int]], Collection[int]] = lambda steps: ()) -> None:
    """Delete all but the newest checkpoints, and of the kept weights those that are not `wanted` of their steps."""
    for _, path in sorted(_list_numbered(run / "checkpoints", ""))[:-keep_checkpoints]:
        shutil.rmtree(path)
    weights = weights_by_step(run)
    keep = wanted(list(weights))
    for path in (path for step, path in weights.items() if step not in keep):
        path.unlink()
        path.with_suffix(".sha256").unlink(missing_ok=True)


def average(kept: Sequence[Path], unhashed: bool = False) -> dict[str, Tensor]:
    """The mean of kept weights, summed in float64; of one alone its very numbers.

    `unhashed`: take in weights beside which no sha256 was kept, with a warning.

    Raises:
        UserError: one is damaged, not what was written, or without its sha256.
    """
    total: dict[str, Tensor] = {}
    types: dict[str, torch.dtype] = {}
    for path in kept:
        if recorded_hash(path) is None:
            if not unhashed:
                raise UserError(
                    f"{path}: no sha256 was kept beside it, so nobody can tell whether it was changed. Delete it and "
                    f"the average is of one checkpoint less, or take it in as it is: train.unhashed_weights=true"
                )
            logger.warning(f"{path}: no sha256 was kept beside it; it enters the average unchecked")
        for name, value in _weights(path).items():
            types[name] = value.dtype
            total[name] = total[name] + value.double() if name in total else value.double()
    return {name: (value / len(kept)).to(types[name]) for name, value in total.items()}


def weights_by_step(run: Path) -> dict[int, Path]:
    """Step -> the file of the weights that were kept of it, in order."""
    return dict(sorted(_list_numbered(run / "weights", ".safetensors")))


def _weights(path: Path) -> dict[str, Tensor]:
    try:
        held: dict[str, Tensor] = load_file(path)
    except SafetensorError as problem:
        raise UserError(
            f"{path}: damaged ({problem}). Without this file the run's average is made of the other weights kept: "
            f"delete it and start the same command again"
        ) from None
    return held


def recorded_hash(path: Path) -> str | None:
    """The sha256 (hex) that was kept beside weights, which they have; None in a run from before hashes were kept.

    Raises:
        UserError: they have another one.
    """
    note = path.with_suffix(".sha256")
    if not note.is_file():
        return None
    expected, found = note.read_text(encoding="utf-8").partition(" ")[0], file_sha256(path)
    if found != expected:
        raise UserError(
            f"{path}: was changed after it was written (sha256 {found[:12]}..., expected {expected[:12]}...). Delete "
            f"it and the average is of one checkpoint less, or take the last weights alone: train.final_weights=last"
        )
    return expected


class StaleAttemptError(RuntimeError):
    """This process belongs to a start of the run that a later start has replaced."""


def next_attempt(run: Path) -> int:
    """Take over the run: its attempt number plus one, written to disk."""
    attempt = current_attempt(run) + 1
    run.mkdir(parents=True, exist_ok=True)
    atomic_write(run / "attempt", str(attempt))
    return attempt


def check_attempt(run: Path, attempt: int) -> None:
    """Raises StaleAttemptError when a later start has taken over."""
    current = current_attempt(run)
    if current != attempt:
        raise StaleAttemptError(f"{run}: attempt {attempt} was replaced by attempt {current}; this process stops")


def current_attempt(run: Path) -> int:
    """The number of the run's last start that came to training; 0 where none did."""
    path = run / "attempt"
    return int(path.read_text(encoding="utf-8")) if path.is_file() else 0


def _manifest(checkpoint: Path) -> dict[str, Any]:
    path = checkpoint / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UserError(f"{path}: cannot be read ({problem}). {_remedy(checkpoint)}") from problem
    if manifest.get("format_version") != FORMAT_VERSION:
        version = manifest.get("format_version")
        raise UserError(f"{path}: format_version {version!r} is not known. Choices: {FORMAT_VERSION}")
    return manifest


def _check(checkpoint: Path, name: str, files: Mapping[str, str]) -> None:
    """Raises UserError where the file `name` is not the one whose sha256 the manifest's `files` give."""
    path = checkpoint / name
    if not path.is_file():
        raise UserError(f"{path}: missing, though it is a part of the checkpoint. {_remedy(checkpoint)}")
    found, expected = file_sha256(path), files.get(name, "")
    if found != expected:
        raise UserError(
            f"{path}: does not match its manifest (sha256 {found[:12]}..., expected {expected[:12]}...): "
            f"it was changed after it was written. {_remedy(checkpoint)}"
        )


def _remedy(checkpoint: Path) -> str:
    older = [path for _, path in _list_numbered(checkpoint.parent, "") if path != checkpoint]
    then = f"the run goes on from {max(older).name}" if older else "the run starts again"
    return f"Delete {checkpoint} and {then}"


def _keep_weights(run: Path, checkpoint: Path, step: int) -> None:
    """A second name for the network's file, if there is one; a copy where the file system knows no hard links."""
    source = checkpoint / "network.safetensors"
    if not source.is_file():
        return
    kept = run / "weights" / f"step-{step:08d}.safetensors"
    kept.parent.mkdir(exist_ok=True)
    digest = _manifest(checkpoint)["files"][source.name]
    kept.unlink(missing_ok=True)  # of an attempt that died after this step: never beside the hash of another
    atomic_write(kept.with_suffix(".sha256"), f"{digest}  {kept.name}\n")
    with atomic_path(kept) as part:
        try:
            part.hardlink_to(source)
        except OSError:
            shutil.copyfile(source, part)


def _list_numbered(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    pattern = re.compile(rf"step-(\d+){re.escape(suffix)}")
    matches = [(pattern.fullmatch(path.name), path) for path in folder.glob("step-*")]
    return [(int(match.group(1)), path) for match, path in matches if match]
