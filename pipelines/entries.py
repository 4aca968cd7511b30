"""How the pipeline verbs that need torch start: composed, checked and, where a mistake can be seen, refused without it.

Torch takes longer to load than everything that comes before it, so a verb's module is imported when its work begins.
"""

import importlib
from collections.abc import Sequence

from conf import door
from pipelines.config import Config
from pipelines.shards.manifest import read_manifest

READERS = {"train", "compare"}  # verbs that can do nothing without shards


def main(argv: Sequence[str]) -> int:
    """The exit code of the verb that is the first word."""
    verb, *words = argv

    def task(config: Config) -> int:
        if verb in READERS:
            read_manifest(config.shard_dir)
        code: int = importlib.import_module(f"pipelines.{verb}").task(config)
        return code

    return door.run(task, Config, words, verb)
