"""How the pipeline verbs that need torch start: composed, checked and, where a mistake can be seen, refused without it.

Torch takes longer to load than everything that comes before it, so a verb's module is imported when its work begins.
"""

import importlib
import shlex
from collections.abc import Sequence

from conf import compose
from model.errors import UserError
from pipelines.config import Config
from pipelines.corpus.sharded import as_sharded
from pipelines.shards.manifest import has_manifest

READERS = {"train", "compare"}  # verbs that can do nothing without shards
OF_SHARDS = {"experiment", "corpus", "pair", "tokenizer", "shards", "paths", "seed"}  # sections that settle them


def main(argv: Sequence[str]) -> int:
    """The exit code of the verb that is the first word."""
    verb, *words = argv

    def task(config: Config) -> int:
        if verb in READERS:
            refuse_without_shards(config, words)
        code: int = importlib.import_module(f"pipelines.{verb}").task(config)
        return code

    def check(config: Config) -> None:
        if verb in READERS:
            if config.paths.visible:
                refuse_without_shards(config, words)
            importlib.import_module(f"pipelines.{verb}").check(config)

    return compose.run(task, Config, words, verb, check, as_sharded if verb in READERS else None)


def refuse_without_shards(config: Config, words: Sequence[str]) -> None:
    """Name the command that makes the shards that `words` mean.

    Raises:
        UserError: `pair` names no languages, or there are no finished shards of it.
    """
    if config.languages and not has_manifest(config.shard_dir):
        wanted = [word for word in words if word.lstrip("+~").partition("=")[0].partition(".")[0] in OF_SHARDS]
        raise UserError(
            f"no shards in {config.paths.shards}; this makes them: {shlex.join(['dragoman', 'shard', *wanted])}"
        )
