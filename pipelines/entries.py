"""Starts the pipeline commands that need torch: composes and checks the configuration before loading torch.

Torch takes longer to load than all other steps before the work, so a command's module is imported only then.
"""

import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.conf import again, compose, groups
from dragoman.conf.kinds import LANGUAGE_MODEL, kind_words
from dragoman.model.errors import UserError
from dragoman.model.runs import paths
from dragoman.model.shards.manifest import has_manifest, read_manifest
from dragoman.pipelines.cluster.embedded_ray import begin_ray
from dragoman.pipelines.config import SHARDING, Config, SynthesizeRoot
from dragoman.pipelines.corpus.sharded import cutting, shard_command
from dragoman.pipelines.settle import begun_words, settle

READERS = {"train", "compare"}  # commands that need shards
SPREADING = {"shard", *READERS}  # commands that start workers
ROOTS: dict[str, type[Config]] = {"synthesize": SynthesizeRoot}  # with a section of their own
UNREAD = ("compare", "models", "promote", "bundle", "output")  # that a training does not read
# which run and shards
NAMES = ("name", "pair", "seed", "corpus", "tokenizer", "model", "paths", "registry", "tracking")
SHOWN: dict[str, Sequence[str]] = {  # the sections of each verb
    "shard": SHARDING,
    "train": [name for name in Config.__dataclass_fields__ if name not in UNREAD],
    "compare": [name for name in Config.__dataclass_fields__ if name not in ("promote", "bundle", "output")],
    "verify": NAMES,
    "evaluate": (*NAMES, "bundle", "engine", "evaluate", "decode", "alignment", "vectors"),
    "promote": (*NAMES, "promote", "decode", "vectors"),
    "rollback": (*NAMES, "promote"),
    "synthesize": (*NAMES, "bundle", "engine", "output", "synthesize", "decode"),
}
NEXT = {"shard": "train", "train": "promote", "evaluate": "promote"}  # command -> the usual next one
logger = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command that is the first word."""
    verb, *words = argv
    chosen: set[str] = set()
    run = words.pop(0) if verb == "verify" and words and names_run(words[0]) else None

    def task(config: Config) -> int:
        if verb == "verify" and (run or not config.name):
            config = set_run(config, run or only_run(config))
        if verb in SPREADING:
            refuse_without_gpu(config)
        if verb in READERS:
            refuse_without_shards(config)
        with begin_ray(config.cluster) if needs_ray(verb, config) else contextlib.nullcontext():
            code: int = importlib.import_module(f"dragoman.pipelines.{verb}").task(config)
        if code == compose.OK and (after := next_command(verb, config, chosen)) is not None:
            logger.info("next: %s", after)
        return code

    def check(config: Config) -> None:
        if verb in READERS:
            if config.paths.visible:
                refuse_without_shards(config)
            importlib.import_module(f"dragoman.pipelines.{verb}").check(config)

    def settled(current: Callable[[], Mapping[str, Any]], keys: Set[str]) -> Iterator[Mapping[str, Any]]:
        chosen.update(keys)
        return settle(verb, current, keys)

    return compose.run(task, ROOTS.get(verb, Config), words, verb, check, settled, SHOWN[verb])


def next_command(verb: str, config: Config, chosen: Set[str]) -> str | None:
    """Returns the command that continues after `verb`; None if it depends on the user's aims."""
    if verb not in NEXT:
        return None
    changes: list[str] = []
    corpus = config.corpus
    if verb == "shard" and "head" not in config.model and "model" not in chosen:
        changes = kind_words(corpus.format, corpus.labels, len(config.languages), config.tokenizer.type)
        if config.tokenizer.same_as:
            changes = begun_words(changes, config)
    if LANGUAGE_MODEL in changes and has_manifest(config.shard_dir):
        manifest = read_manifest(config.shard_dir)
        if "valid" not in manifest.splits:
            return shard_command(*cutting(manifest, corpus.cut.run), beside=config.paths.shards)
    if verb == "evaluate" and config.bundle is not None:
        return None  # another's bundle is promoted under its own name
    if verb == "train" and not config.registry.register:
        return None  # nothing was registered, and a training has said its scores
    return again.command(NEXT[verb], *changes, keep=partial(groups.reads, NEXT[verb]))


def names_run(word: str) -> bool:
    """Returns True for a run's name or folder: anything that exists, or is not KEY=VALUE."""
    return not word.startswith("-") and ("=" not in word or Path(word).exists())


def only_run(config: Config) -> str:
    """Returns the only run's name."""
    runs = config.paths.local(config.paths.runs)
    names = sorted(path.parent.name for path in runs.glob(f"*/{paths.RECORD}"))
    if len(names) != 1:
        raise UserError(f"say which run, dragoman verify RUN; those in {runs}: {', '.join(names) or 'none'}")
    return names[0]


def set_run(config: Config, name: str) -> Config:
    """Returns the configuration of the run in the folder `name`, else of that name in `paths.runs`."""
    folder = Path(name).resolve()
    if not paths.begun(folder):
        return replace(config, name=name)
    return replace(config, name=folder.name, paths=replace(config.paths, runs=str(folder.parent)))


def needs_ray(verb: str, config: Config) -> bool:
    """Returns True if the command will start its own Ray, as far as that is known without torch."""
    if verb != "train" or config.cluster.backend == "local" or config.cluster.address is not None:
        return False
    return not (config.run_dir / paths.RELEASE).is_file()


def refuse_without_gpu(config: Config) -> None:
    """Refuses a missing GPU before anything starts; a remote cluster checks its own."""
    if config.cluster.device != "cuda" or config.cluster.address is not None:
        return
    from torch import cuda

    if not cuda.is_available():
        raise UserError(
            "cluster.device=cuda: torch sees no GPU here; cluster.device=cpu trains on the processor's cores, "
            "cluster.address=HOST:PORT on a cluster that has GPUs, and `dragoman doctor` says what is missing"
        )


def refuse_without_shards(config: Config) -> None:
    """Names the command that makes the missing shards of the running command line.

    Raises UserError: `pair` names no languages, or there are no finished shards of it, or its corpus cannot give any.
    """
    if not config.languages or has_manifest(config.shard_dir):
        return
    from dragoman.pipelines.corpus.read.built_in import BUILT_IN, check_built_in  # needed for a mistake alone

    if config.corpus.format == BUILT_IN:
        try:
            check_built_in(config.corpus, config.pair)
        except UserError as problem:
            raise UserError(f"no shards in {config.paths.shards}, and {problem}") from None
    raise UserError(f"no shards in {config.paths.shards}; this makes them: {shard_command()}")
