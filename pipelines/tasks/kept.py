"""Tensors that a run begins with, made once and stored in its folder with a note of their origin, in one file.

So workers need no registry, and a resumed run has its initial values even if an alias has moved.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from dragoman.model.files import atomic_path
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.config import Config

logger = logging.getLogger(__name__)
Note = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """One file of a run's folder."""

    file: str
    settings: Callable[[Config], dict[str, Any]]  # that the tensors depend on; empty: the run has none
    stored: Callable[[Note], dict[str, Any]]  # the same, from a note
    make: Callable[[Config, TokenizerPair], tuple[Mapping[str, Tensor], Note]]
    describe: Callable[[Config, Note], Iterator[str]]  # a line for each model that they come from

    def note(self, config: Config) -> Note | None:
        """Returns the note of the run's tensors; None if it has none, or those of other settings."""
        path, settings = config.run_dir / self.file, self.settings(config)
        if not settings or not path.is_file():
            return None
        with safe_open(path, framework="pt") as file:
            note: Note = json.loads(file.metadata()[path.stem])
        return note if self.stored(note) == settings else None

    def keep(self, config: Config, tokenizers: TokenizerPair) -> None:
        """Stores the tensors of a new run, and says where they come from."""
        if not self.settings(config) or self.note(config):
            return
        tensors, note = self.make(config, tokenizers)
        path = config.run_dir / self.file
        with atomic_path(path) as part:  # torchrun's processes write the same file at once
            save_file(dict(tensors), part, {path.stem: json.dumps(note)})
        for line in self.describe(config, note):
            logger.info(line)

    def tensors(self, config: Config, tokenizers: TokenizerPair) -> Mapping[str, Tensor]:
        """Returns the run's tensors; before they are stored, those that its settings name."""
        stored = self.note(config) is not None
        return load_file(config.run_dir / self.file) if stored else self.make(config, tokenizers)[0]
