"""Writes a checkpoint completely or not at all, reads it, and averages kept weights.

`model/runs/checkpoints.py` describes a checkpoint's files and lists the checkpoints.
"""

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_directory, atomic_path, atomic_write, file_sha256, synchronise
from dragoman.model.layers.low_rank import merged
from dragoman.model.runs import checkpoints
from dragoman.model.runs.attempts import check_attempt
from dragoman.model.runs.checkpoints import FORMAT_VERSION, MANIFEST, STATE


def write(
    run: Path,
    step: int,
    attempt: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    plain: Mapping[str, Any],
    kept: bool = True,
) -> Path:
    """Writes one checkpoint from groups of tensors (one file each) and plain state; returns its directory.

    `kept`: also keep the network's weights for averaging. Those of a checkpoint made by the clock or a signal
    are not kept, because the final model must depend only on steps.

    Raises StaleAttemptError: another start of the same run has taken over. Raises OSError: the disk is full; no partial
    files are left.
    """
    check_attempt(run, attempt)
    final = checkpoints.folder(run, step)
    try:
        with atomic_directory(final) as part:  # replaces that of an attempt that died after this step
            for group, members in tensors.items():
                held = {name: value.detach().cpu().contiguous() for name, value in members.items()}
                save_file(held, part / f"{group}.safetensors")
            (part / STATE).write_text(json.dumps(plain, sort_keys=True), encoding="utf-8")
            files = {path.name: file_sha256(path) for path in sorted(part.iterdir())}
            manifest = {"format_version": FORMAT_VERSION, "step": step, "attempt": attempt, "files": files}
            (part / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True), encoding="utf-8")
            for path in part.iterdir():  # now, because it takes time: the check must come right before the rename
                synchronise(path)
            check_attempt(run, attempt)
    except SafetensorError as problem:  # safetensors wraps the system's error: "No space left on device (os error 28)"
        if "os error 28" in str(problem):
            raise OSError(28, "No space left on device", str(final)) from problem
        raise
    if kept:
        keep_weights(run, final, step)
    return final


def read(checkpoint: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Returns (groups of tensors, state), with every file checked against the manifest.

    Raises UserError: a file is missing or differs from the one that was written.
    """
    files = checkpoints.check(checkpoint)
    groups = {Path(n).stem: load_file(checkpoint / n) for n in files if n.endswith(".safetensors")}
    return groups, checkpoints.state(checkpoint)


def prune(run: Path, keep_checkpoints: int, choose: Callable[[list[int]], Collection[int]] = lambda steps: ()) -> None:
    """Deletes all but the newest checkpoints, and the kept weights of steps that `choose` does not name."""
    for path in list(checkpoints.every(run).values())[:-keep_checkpoints]:
        shutil.rmtree(path)
    weights = checkpoints.weights_by_step(run)
    keep = choose(list(weights))
    for path in (path for step, path in weights.items() if step not in keep):
        path.unlink()
        path.with_suffix(".sha256").unlink(missing_ok=True)


def average(kept: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of kept weights, summed in float64; of a single file its very numbers.

    Low-rank factors are merged first: the mean of their products is not the product of their means.

    Raises UserError: a file is damaged, differs from what was written, or lacks its sha256.
    """
    total: dict[str, Tensor] = {}
    types: dict[str, torch.dtype] = {}
    for path in kept:
        checkpoints.recorded_hash(path)
        for name, value in merged(_weights(path)).items():
            types[name] = value.dtype
            total[name] = total[name] + value.double() if name in total else value.double()
    return {name: (value / len(kept)).to(types[name]) for name, value in total.items()}


def _weights(path: Path) -> dict[str, Tensor]:
    try:
        held: dict[str, Tensor] = load_file(path)
    except SafetensorError as problem:
        raise UserError(
            f"{path}: damaged ({problem}). Without this file the run's average is made of the other weights kept: "
            f"delete it and start the same command again"
        ) from None
    return held


def keep_weights(run: Path, checkpoint: Path, step: int) -> None:
    """Gives the network's file a second name, if there is one; copies it if the file system has no hard links."""
    source = checkpoint / "network.safetensors"
    if not source.is_file():
        return
    kept = checkpoints.weights(run, step)
    kept.parent.mkdir(exist_ok=True)
    digest = checkpoints.manifest(checkpoint)["files"][source.name]
    kept.unlink(missing_ok=True)  # of an attempt that died after this step: it must not meet another's hash
    atomic_write(kept.with_suffix(".sha256"), f"{digest}  {kept.name}\n")
    with atomic_path(kept) as part:
        try:
            part.hardlink_to(source)
        except OSError:
            shutil.copyfile(source, part)
