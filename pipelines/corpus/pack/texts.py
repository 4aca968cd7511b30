"""The texts beside the shards: the held-out sentences, the hashes of the training text, and that text on request."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.files import atomic_open, file_sha256
from dragoman.model.runs.paths import TRAINING
from dragoman.model.shards.manifest import LABELS
from dragoman.model.text.hashed_texts import HashedTexts
from dragoman.pipelines.corpus.clean.block import load_block, load_near_keys
from dragoman.pipelines.corpus.pack.packing import kept_texts
from dragoman.pipelines.corpus.plan.codes import code, load_codes
from dragoman.pipelines.corpus.plan.plan import Plan
from dragoman.pipelines.corpus.read.sources import SPLITS

LEVEL = 6  # of zstd


def write_texts(
    directory: Path, clean: Path, plan: Plan, languages: Sequence[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Writes the held-out sentences as `{split}.{language}.txt`: split -> language -> {file, sha256, lines}."""
    splits = [split for split in SPLITS if split != "train" and plan.records(split)]
    paths = {split: [directory / f"{split}.{language}.txt" for language in languages] for split in splits}
    with contextlib.ExitStack() as stack:
        files = {
            split: [stack.enter_context(atomic_open(path, durable=False)) for path in paths[split]] for split in splits
        }
        for block in range(len(plan.kept["train"])):
            wanted = [split for split in splits if plan.kept[split][block]]
            if not wanted:
                continue
            texts, codes = load_block(clean, block).texts(), load_codes(plan.folder, block)
            prefixes = (plan.prefix(block), *[""] * (len(texts) - 1))
            for split in wanted:
                places = np.flatnonzero(codes == code(split)).tolist()
                for file, lines, prefix in zip(files[split], texts, prefixes, strict=True):
                    file.write("".join(f"{prefix}{lines[place]}\n" for place in places).encode())
    return {
        split: {
            language: {"file": path.name, "sha256": file_sha256(path), "lines": plan.records(split)}
            for language, path in zip(languages, paths[split], strict=True)
        }
        for split in splits
    }


def write_training_texts(
    directory: Path, clean: Path, plan: Plan, sides: Sequence[str], ancestors: Sequence[HashedTexts] = ()
) -> dict[str, str]:
    """Writes the hashes of the training texts with those of `ancestors`: {file, sha256}."""
    count = len(sides) - (LABELS in sides)  # labels are no sentences
    kept = (
        load_near_keys(clean, block, count)[:, load_codes(plan.folder, block) == code("train")].ravel()
        for block, records in enumerate(plan.kept["train"])
        if records
    )
    HashedTexts.of(kept).joined(*ancestors).write(directory / TRAINING)
    return {"file": TRAINING, "sha256": file_sha256(directory / TRAINING)}


def keep_training_text(directory: Path, clean: Path, plan: Plan, languages: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Writes the training split as `train.{language}.txt.zst`: language -> {file, sha256, lines}.

    One zstd frame per file, one record per line in the shards' order; subword regularisation reads it.
    """
    import zstandard

    paths = [directory / f"train.{language}.txt.zst" for language in languages]
    with contextlib.ExitStack() as stack:
        files = []
        for path in paths:
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
            file = stack.enter_context(atomic_open(path, durable=False))
            files.append(stack.enter_context(compressor.stream_writer(file, closefd=False)))
        for texts in kept_texts(clean, plan, "train"):
            for file, lines in zip(files, texts, strict=True):
                file.write("".join(f"{line}\n" for line in lines).encode())
    return {
        language: {"file": path.name, "sha256": file_sha256(path), "lines": plan.records("train")}
        for language, path in zip(languages, paths, strict=True)
    }
