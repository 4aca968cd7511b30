"""`dragoman import FOLDER|hf://ORG/NAME[@REVISION]|FILE`: another program's model as a bundle, registered as ours are.

dragoman import opus-mt-en-de                          a folder of transformers: BERT, GPT-2, Llama, Marian ...
dragoman import hf://ORG/NAME@REVISION pair=en-de      the same from a hub
dragoman import glove.6B.100d.txt pair=en              word vectors
"""

import importlib
import sys
from functools import partial
from pathlib import Path

from dragoman.conf import compose
from dragoman.pipelines.config import ImportRoot
from dragoman.pipelines.settle import settle


def main(argv: list[str]) -> int:
    """Runs the command; its first word names the model."""
    named = argv[:1] if argv and ("=" not in argv[0] or Path(argv[0]).exists()) else []

    def task(config: ImportRoot) -> int:
        code: int = importlib.import_module("dragoman.pipelines.tasks.importing").task(config, *named)  # loads torch
        return code

    shown = ["name", "pair", "paths", "registry", "imports", "tracking"]
    return compose.run(task, ImportRoot, argv[len(named) :], "import", settle=partial(settle, "import"), shown=shown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
