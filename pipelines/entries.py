"""How the pipeline verbs that need torch start: composed, checked and, where a mistake can be seen, refused without it.

Torch takes longer to load than everything that comes before it, so a verb's module is imported when its work begins.
"""

import contextlib
import importlib
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conf import compose, own
from model.errors import UserError
from model.ranges import Range, all_ranges
from model.runs import paths
from model.shards.manifest import has_manifest
from pipelines.cluster.embedded_ray import begin_ray
from pipelines.config import Config, VerifyRoot
from pipelines.corpus.sharded import as_sharded
from pipelines.tracking.policy import policy_words

READERS = {"train", "compare"}  # verbs that can do nothing without shards
SPREADING = {"shard", *READERS}  # verbs that start workers
NEXT = {"shard": "train", "train": "evaluate", "evaluate": "promote"}  # verb -> what is done after it
OF_WORKERS = ["pipelines.train", "pandas", "pydantic", "requests"]  # what a training imports, and Ray Train for itself
logger = logging.getLogger(__name__)
OF_SHARDS = {"experiment", "corpus", "pair", "tokenizer", "shards", "paths", "seed"}  # sections that settle them


def main(argv: Sequence[str]) -> int:
    """The exit code of the verb that is the first word."""
    verb, *words = argv
    if verb == "promote":
        words = policy_words(words)
    run = words.pop(0) if verb == "verify" and words and names_run(words[0]) else None

    def task(config: Config) -> int:
        if run is not None:
            config = of_run(config, run)
        if verb in SPREADING:
            refuse_without_gpu(config)
        if verb in READERS:
            refuse_without_shards(config, words)
        with begin_ray(config.cluster.device, OF_WORKERS) if needs_ray(verb, config) else contextlib.nullcontext():
            code: int = importlib.import_module(f"pipelines.{verb}").task(config)
        if code == compose.OK and (after := next_command(verb, config, words)) is not None:
            logger.info("next: %s", after)
        return code

    def check(config: Config) -> None:
        if verb in READERS:
            if config.paths.visible:
                refuse_without_shards(config, words)
            importlib.import_module(f"pipelines.{verb}").check(config)

    root = VerifyRoot if verb == "verify" else Config
    return compose.run(task, root, words, verb, check, as_sharded if verb in READERS else None, model_ranges)


def model_ranges(composed: Mapping[str, Any]) -> Iterator[tuple[str, Range]]:
    """Yields the keys of the chosen architecture's settings with their ranges."""
    table = importlib.import_module("model.networks.architectures")  # loads torch
    name = dict(composed.get("model") or {}).get("architecture")
    if name:
        yield from all_ranges(table.architecture(str(name)).config, "model.")


def next_command(verb: str, config: Config, words: Sequence[str]) -> str | None:
    """The command that goes on with what `verb` made; None where it depends on what is wanted."""
    if verb not in NEXT or any(word.startswith("-") for word in words):
        return None
    again = list(words)
    if verb == "shard" and config.languages[1:] == () and not any(word.startswith("model=") for word in words):
        whole_words = config.tokenizer.type in ("words", "vocabulary")  # what word vectors are of
        again += ["model=skipgram", "registry=vectors"] if whole_words else ["model=gpt_tiny", "registry=language"]
    if verb == "evaluate" and (config.evaluate.bundle is not None or config.evaluate.ensemble):
        return None  # another's bundle is promoted under its own name
    return shlex.join(["dragoman", NEXT[verb], *again])


def names_run(word: str) -> bool:
    """An override is KEY=VALUE; anything else, and whatever exists, is a run's name or folder."""
    return not word.startswith("-") and ("=" not in word or Path(word).exists())


def of_run(config: Config, given: str) -> Config:
    """The configuration of the run in the folder `given`, else of that name in `paths.runs`."""
    folder = Path(given).resolve()
    if not paths.begun(folder):
        return replace(config, name=given)
    return replace(config, name=folder.name, paths=replace(config.paths, runs=str(folder.parent)))


def needs_ray(verb: str, config: Config) -> bool:
    """Whether the verb will start a Ray of its own, as far as it can be known without torch."""
    if verb != "train" or config.cluster.backend != "ray" or config.cluster.address is not None:
        return False
    return not (config.run_dir / paths.RELEASE).is_file()


def refuse_without_gpu(config: Config) -> None:
    """Refuse a GPU that is not here before anything starts; what a cluster elsewhere has is its own to say.

    Raises:
        UserError: `cluster.device=cuda` on a machine where torch sees none.
    """
    if config.cluster.device != "cuda" or config.cluster.address is not None:
        return
    from torch import cuda

    if not cuda.is_available():
        raise UserError(
            "cluster.device=cuda: torch sees no GPU here; cluster.device=cpu trains on the processor's cores, "
            "cluster.address=HOST:PORT on a cluster that has GPUs, and `dragoman doctor` says what is missing"
        )


def refuse_without_shards(config: Config, words: Sequence[str]) -> None:
    """Name the command that makes the shards that `words` mean.

    Raises:
        UserError: `pair` names no languages, or there are no finished shards of it.
    """
    if config.languages and not has_manifest(config.shard_dir):
        wanted = [word for word in words if word.lstrip("+~").partition("=")[0].partition(".")[0] in OF_SHARDS]
        command = shlex.join(["dragoman", "shard", *own.option(), *wanted])
        raise UserError(f"no shards in {config.paths.shards}; this makes them: {command}")
