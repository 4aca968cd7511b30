"""Starts the commands that load a network: composes and checks the configuration before loading torch.

Torch takes longer to load than all other steps before the work, so a command's module is imported only then.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.conf.words import is_setting, quote_text
from dragoman.model.errors import UserError
from dragoman.services.models.home import SHARED, run_section, with_home
from dragoman.services.settings import (
    ContinueConfig,
    EmbedConfig,
    PredictConfig,
    RerankConfig,
    ScoreConfig,
    ServeRoot,
    TranslateRoot,
)
from dragoman.services.verbs import TEXT_FIRST

PROMPT = "generate.prompt="
Row = tuple[str, str, str, type[Any]]  # a module, its function, the section of the words, and the sections' types
COMMANDS: dict[str, Row] = {
    "translate": ("dragoman.services.commands.translate", "translate", "translate", TranslateRoot),
    "serve": ("dragoman.services.endpoint.serve", "serve", "serve", ServeRoot),
    "rerank": ("dragoman.services.commands.rerank", "rerank", "rerank", RerankConfig),
    "generate": ("dragoman.services.commands.generate", "continue_texts", "generate", ContinueConfig),
    "predict": ("dragoman.services.commands.predict", "predict", "predict", PredictConfig),
    "embed": ("dragoman.services.commands.embed", "embed", "embed", EmbedConfig),
    "score": ("dragoman.services.commands.score", "score", "score", ScoreConfig),
}


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command that is the first word. `serve`: 0 after SIGTERM, 130 after SIGINT."""
    verb, *words = argv
    module, function, section, config = COMMANDS[verb]
    text: list[str | None] = []
    if verb in TEXT_FIRST:
        given, words = text_of(words, "input")
        text = [given]

    def work(*settings: Any) -> int:
        from dragoman.services.commands.lines import check_files  # loads lxml and NumPy

        check_files(section, settings[0])
        code: int = getattr(importlib.import_module(module), function)(*settings)
        return code

    if verb in ("translate", "serve"):
        return compose.run(
            lambda root: work(with_home(root, section), root.decode, words, root.alignment, *text),
            config,
            words,
            verb,
            shown=[*SHARED, section, "decode", "alignment"],
        )
    words = verbatim(words) if verb == "generate" else words
    return run_section(lambda settings: work(settings, *text), section, config, words, verb)


def text_of(argv: Sequence[str], key: str) -> tuple[str | None, list[str]]:
    """Splits off the words before the first option that are no settings, as a text (None: there are none)."""
    options = next((place for place, word in enumerate(argv) if word.startswith("-") and " " not in word), len(argv))
    words = [word for word in argv[:options] if not is_setting(word)]
    if len(words) == 1 and Path(words[0]).is_file():
        raise UserError(f"{words[0]}: is a file; {key}={words[0]} reads it")
    rest = [word for word in argv[:options] if is_setting(word)] + list(argv[options:])
    return " ".join(words) if words else None, rest


def verbatim(argv: Sequence[str]) -> list[str]:
    """Returns the command line with the prompt quoted, so that Hydra parses no commas, colons and brackets in it.

    A prompt that is quoted already, or null, is unchanged.
    """
    return [quote_text(word, PROMPT) if word.startswith(PROMPT) else word for word in argv]
