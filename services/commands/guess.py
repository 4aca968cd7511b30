"""`dragoman next TEXT` and `dragoman fill TEXT`: the likeliest tokens at a place, with probabilities, without a server.

`next` shows what a language model expects after the text, and follows the likeliest path. `fill` shows what a masked
model expects at each [MASK].
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dragoman.conf import compose
from dragoman.model.decoding.likely import MASK, Step, fill_steps, has_mask, likely_path
from dragoman.model.errors import UserError
from dragoman.model.ranges import check_ranges
from dragoman.model.text.excerpt import excerpt
from dragoman.services.commands.guess_picture import SUFFIXES, guess_picture
from dragoman.services.commands.output import check_picture
from dragoman.services.models.source import open_text_bundle
from dragoman.services.settings import GuessConfig

BAR = 30  # characters of a certain token


def next_tokens(config: GuessConfig, text: str | None = None) -> int:
    """Prints the likeliest continuations of the text, step by step."""
    check(config)
    prompt = config.text if text is None else text
    if prompt is None:
        raise UserError('next: give the beginning of a text: dragoman next "I was eating"')
    bundle = open_text_bundle(config, "language")
    network = bundle.language_network.to(config.device)
    steps = likely_path(network, bundle.tokenizer, prompt, config.best, config.steps, bundle.normalisation)
    return show(config, steps, steps[-1].text)


def fill(config: GuessConfig, words: str | None = None) -> int:
    """Prints the likeliest tokens for each mask of the text."""
    check(config)
    masked = config.text if words is None else words
    if masked is None or not has_mask(masked):
        advice = "give a text with a mask" if masked is None else f"{masked[:60]!r} has no {MASK}"
        raise UserError(f'fill: {advice}; write one for each token to guess: dragoman fill "The {MASK} barks."')
    bundle = open_text_bundle(config, "masked")
    network = bundle.network.to(config.device)
    steps, text = fill_steps(network, bundle.tokenizer, masked, config.best, bundle.normalisation)
    return show(config, steps, text)


def check(config: GuessConfig) -> None:
    """Refuses invalid settings by name, before anything is loaded."""
    check_ranges("guess", config)
    check_picture("guess.picture", config.picture, SUFFIXES)


def show(config: GuessConfig, steps: Sequence[Step], text: str) -> int:
    """Prints the steps and the resulting text, and draws the picture if one is asked for."""
    if config.picture is not None:
        guess_picture(steps, Path(config.picture))
    print(as_json(steps, text) if config.format == "json" else as_text(steps, text))
    sys.stdout.flush()
    return compose.OK


def as_json(steps: Sequence[Step], text: str) -> str:
    """Returns one object: the text, and for each step the text before it and the tokens with probabilities."""
    rows = [{"text": step.text, "tokens": [prediction._asdict() for prediction in step.predictions]} for step in steps]
    return json.dumps({"text": text, "steps": rows}, ensure_ascii=False)


def as_text(steps: Sequence[Step], text: str) -> str:
    """Returns a table per step, and the resulting text."""
    width = max((len(excerpt(prediction.piece)) for step in steps for prediction in step.predictions), default=0)
    lines = []
    for step in steps:
        lines.append(excerpt(step.text))
        for piece, share in step.predictions:
            lines.append(f"  {excerpt(piece):<{width}}  {share:6.4f}  {'#' * round(BAR * share)}".rstrip())
    return "\n".join([*lines, "", f"likeliest: {excerpt(text)}"])
