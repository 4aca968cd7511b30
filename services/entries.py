"""Starts the commands that load a network: composes and checks the configuration before loading torch.

Torch takes longer to load than all other steps before the work, so a command's module is imported only then.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.conf.mistakes import is_setting
from dragoman.conf.quoting import quote_text
from dragoman.model.errors import UserError
from dragoman.services.settings import (
    ContinueConfig,
    EmbedConfig,
    GuessConfig,
    LabelConfig,
    RerankRoot,
    ScoreConfig,
    ServeRoot,
    TranslateRoot,
)
from dragoman.services.verbs import TEXT_FIRST

MODULES = {
    verb: f"dragoman.services.commands.{verb}" for verb in ("translate", "generate", "embed", "score", "rerank")
} | {
    "next": "dragoman.services.commands.guess",
    "fill": "dragoman.services.commands.guess",
    "classify": "dragoman.services.commands.label",
    "tag": "dragoman.services.commands.label",
    "serve": "dragoman.services.endpoint.serve",
}
FUNCTIONS = {"generate": "continue_texts", "next": "next_tokens"}  # of other names than their verbs'
PROMPT = "generate.prompt="
GUESSES = ("next", "fill")  # they read no files
SECTIONS = {"next": "guess", "fill": "guess", "classify": "label", "tag": "label"}  # of other names than their verbs'


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command that is the first word. `serve`: 0 after SIGTERM, 130 after SIGINT."""
    verb, *words = argv
    text = None
    if verb in TEXT_FIRST:
        text, words = text_of(words, None if verb in GUESSES else f"{SECTIONS.get(verb, verb)}.input")

    def work(*settings: Any) -> int:
        module = importlib.import_module(MODULES[verb])
        function: Callable[..., int] = getattr(module, FUNCTIONS.get(verb, verb))
        return function(*settings)

    if verb == "translate":
        return compose.run(
            lambda root: work(root.translate, root.decode, words, root.alignment, text), TranslateRoot, words, verb
        )
    if verb == "serve":
        return compose.run(lambda root: work(root.serve, root.decode, words, root.alignment), ServeRoot, words, verb)
    if verb == "rerank":
        return compose.run(lambda root: work(root.rerank, root.seed), RerankRoot, words, verb)
    section: Any = {
        "generate": ContinueConfig,
        "next": GuessConfig,
        "fill": GuessConfig,
        "classify": LabelConfig,
        "tag": LabelConfig,
        "embed": EmbedConfig,
        "score": ScoreConfig,
    }[verb]
    words = verbatim(words) if verb == "generate" else words
    return compose.run_section(
        lambda config: work(config, *([text] if verb in TEXT_FIRST else [])),
        SECTIONS.get(verb, verb),
        section,
        words,
        verb,
    )


def text_of(argv: Sequence[str], key: str | None) -> tuple[str | None, list[str]]:
    """Splits off the words before the first option that are no settings, as a text (None: there are none)."""
    options = next((place for place, word in enumerate(argv) if word.startswith("-") and " " not in word), len(argv))
    words = [word for word in argv[:options] if not is_setting(word)]
    if key is not None and len(words) == 1 and Path(words[0]).is_file():
        raise UserError(f"{words[0]}: is a file; {key}={words[0]} reads it")
    rest = [word for word in argv[:options] if is_setting(word)] + list(argv[options:])
    return " ".join(words) if words else None, rest


def verbatim(argv: Sequence[str]) -> list[str]:
    """Returns the command line with the prompt quoted, so that Hydra parses no commas, colons and brackets in it.

    A prompt that is quoted already, or null, is unchanged.
    """
    return [quote_text(word, PROMPT) if word.startswith(PROMPT) else word for word in argv]
