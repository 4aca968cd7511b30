"""How the pipeline verbs that need torch start: composed, checked and, where a mistake can be seen, refused without it.

Torch takes longer to load than everything that comes before it, so a verb's module is imported when its work begins.
"""

import contextlib
import importlib
import shlex
from collections.abc import Sequence

from conf import compose
from model.errors import UserError
from pipelines.cluster.embedded_ray import begin_ray
from pipelines.config import Config
from pipelines.corpus.sharded import as_sharded
from pipelines.shards.manifest import MANIFEST

READERS = {"train", "compare"}  # verbs that can do nothing without shards
OF_SHARDS = {"experiment", "corpus", "pair", "tokenizer", "shards", "paths", "seed"}  # sections that settle them


def main(argv: Sequence[str]) -> int:
    """The exit code of the verb that is the first word."""
    verb, *words = argv

    def task(config: Config) -> int:
        if verb in READERS:
            refuse_without_shards(config, words)
        with begin_ray(config.cluster.device) if needs_ray(verb, config) else contextlib.nullcontext():
            code: int = importlib.import_module(f"pipelines.{verb}").task(config)
        return code

    def check(config: Config) -> None:
        if verb in READERS:
            if config.paths.visible:
                refuse_without_shards(config, words)
            importlib.import_module(f"pipelines.{verb}").check(config)

    return compose.run(task, Config, words, verb, check, as_sharded if verb in READERS else None)


def needs_ray(verb: str, config: Config) -> bool:
    """Whether the verb will start a Ray of its own, as far as it can be known without torch."""
    cluster = config.cluster
    finished = (config.run_dir / "release.json").is_file()
    return verb == "train" and cluster.backend == "ray" and cluster.address is None and not finished


def refuse_without_shards(config: Config, words: Sequence[str]) -> None:
    """Name the command that makes the shards that `words` mean.

    Raises:
        UserError: `pair` names no languages, or there are no finished shards of it.
    """
    if config.languages and not (config.shard_dir / MANIFEST).is_file():
        wanted = [word for word in words if word.lstrip("+~").partition("=")[0].partition(".")[0] in OF_SHARDS]
        raise UserError(
            f"no shards in {config.shard_dir}; this makes them: {shlex.join(['dragoman', 'shard', *wanted])}"
        )
