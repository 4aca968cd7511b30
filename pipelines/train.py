"""`dragoman train`: shards -> workers -> checkpoints -> bundle -> registered version. The same command resumes."""

import sys
from functools import partial

from dragoman.conf import compose
from dragoman.pipelines.config import Config
from dragoman.pipelines.settle import settle
from dragoman.pipelines.tasks.launch import check, train


def main(argv: list[str]) -> int:
    """Runs the command; returns its exit code."""
    return compose.run(task, Config, argv, "train", check, partial(settle, "train"))


def task(config: Config) -> int:
    """Trains the run `name` to its end, then releases the result."""
    train(config)
    return compose.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
