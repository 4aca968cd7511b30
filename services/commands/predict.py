"""`dragoman predict`: what a model says of texts, without a server.

A model that labels gives a text's classes, or a tag for each word. A masked model gives the likeliest tokens
for each [MASK], a language model those that come next, step by step.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, TypeAlias

from dragoman.conf import compose
from dragoman.model.alignment.attention_plots import save, shorten_label
from dragoman.model.bundles.directory import Bundle
from dragoman.model.bundles.labelled import LabelBundle
from dragoman.model.bundles.language import TextBundle
from dragoman.model.decoding.likely import MASK, Step, fill_steps, has_mask, likely_path
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import kind_of, open_bundle
from dragoman.model.inference.labeller import Labeller, Labels
from dragoman.model.ranges import check_ranges
from dragoman.model.text.excerpt import excerpt, for_markup
from dragoman.model.text.labelled_words import Words
from dragoman.services.commands.lines import batches, check_picture, open_input, open_output, read_lines
from dragoman.services.models.source import find_model
from dragoman.services.settings import PredictConfig

BAR = 30  # characters of a certain token
TOKENS = 5  # shown of each place
SUFFIXES = (".png", ".svg", ".pdf")


class Guess(NamedTuple):
    """The likeliest tokens of each place, and the text with the likeliest of all."""

    text: str
    steps: list[Step]


Prediction: TypeAlias = Labels | Guess
Predict: TypeAlias = Callable[[Sequence[str]], list[Prediction]]


def predict(config: PredictConfig, text: str | None = None) -> int:
    """Predicts for all lines in order, or for the `text` of the command line."""
    check_ranges("predict", config)
    check_picture("predict.picture", config.picture, SUFFIXES)
    if config.picture is not None and text is None:
        raise UserError("predict.picture: shows one text; write it behind the verb")
    with contextlib.ExitStack() as stack:
        file, name = stack.enter_context(open_input(config.input, text=text))
        out = stack.enter_context(open_output(config.output))
        directory, _ = find_model(config, "labels", "masked", "language")
        predicted = predictor(open_bundle(directory), config.home.device, config.best, config.steps)
        lines = read_lines(file, name, config.on_error)
        number = 0
        for chunk in batches(lines, 1 if file.isatty() else config.lines):
            texts = [line or "" for line in chunk]
            for line, prediction in zip(texts, predicted(texts), strict=True):
                if isinstance(prediction, Guess) and config.format == "text" and number:
                    out.write("\n")
                out.write(written(line, prediction, config.format, config.best or 1) + "\n")
                if isinstance(prediction, Guess) and config.picture is not None:
                    draw(prediction.steps, Path(config.picture))
                number += 1
            out.flush()
    return compose.OK


def predictor(bundle: Bundle, device: str = "cpu", best: int | None = None, steps: int = TOKENS) -> Predict:
    """Returns what predicts with the bundle. `best`: tokens of a place; `steps`: tokens of a language model's path."""
    if isinstance(bundle, LabelBundle):
        labeller = Labeller(bundle, device)
        return lambda texts: [*labeller.label([Words.split(text) for text in texts])]
    if not isinstance(bundle, TextBundle):
        kind = kind_of(bundle.directory)
        raise UserError(f"{bundle.directory} holds {kind.what}, which predicts nothing of a text: {kind.use}")
    tokenizer, form, most = bundle.tokenizer, bundle.normalisation, best or TOKENS
    if bundle.kind == "language":
        network = bundle.language_network.to(device)

        def next_tokens(text: str) -> Guess:
            path = likely_path(network, tokenizer, text, most, steps, form)
            return Guess(path[-1].text, path)

        return lambda texts: [*map(next_tokens, texts)]
    masked = bundle.network.to(device)

    def fill(text: str) -> Guess:
        if not has_mask(text):
            raise UserError(f"{text[:60]!r} has no {MASK}; write one for each token to guess: The {MASK} barks.")
        path, filled = fill_steps(masked, tokenizer, text, most, form)
        return Guess(filled, path)

    return lambda texts: [*map(fill, texts)]


def written(text: str, prediction: Prediction, form: str, best: int) -> str:
    """Returns a text's line, or the tables of its places; `best`: classes of a text."""
    if isinstance(prediction, Guess):
        return as_json(prediction) if form == "json" else "\n".join(table(prediction))
    rows = [asdict(row) for row in prediction]
    tagged = any("tag" in row for row in rows)
    if form == "json":
        return json.dumps(
            {"text": text, "words" if tagged else "labels": rows[: None if tagged else best]}, ensure_ascii=False
        )
    if tagged:
        return " ".join(f"{row['word']}/{row['tag']}" for row in rows)
    return "\t".join(f"{row['label']} {row['score']:.4f}" for row in rows[:best])


def as_json(guess: Guess) -> str:
    """Returns one object: the text, and for each step the text before it and the tokens with probabilities."""
    rows = [
        {"text": step.text, "tokens": [prediction._asdict() for prediction in step.predictions]} for step in guess.steps
    ]
    return json.dumps({"text": guess.text, "steps": rows}, ensure_ascii=False)


def table(guess: Guess) -> Iterator[str]:
    """Yields the rows of a table per step, and the resulting text."""
    names = [excerpt(prediction.piece) for step in guess.steps for prediction in step.predictions]
    width = max(map(len, names), default=0)
    for step in guess.steps:
        yield excerpt(step.text)
        for piece, share in step.predictions:
            yield f"  {excerpt(piece):<{width}}  {share:6.4f}  {'#' * round(BAR * share)}".rstrip()
    yield from ("", f"likeliest: {excerpt(guess.text)}")


def draw(steps: Sequence[Step], path: Path) -> None:
    """Draws each step's tokens as horizontal bars, the likeliest on top."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = max(len(step.predictions) for step in steps)
    figure = Figure(figsize=(6, len(steps) * (0.5 + 0.25 * rows)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(steps), squeeze=False)[:, 0]
    for panel, step in zip(panels, steps, strict=True):
        names = [shorten_label(prediction.piece) for prediction in step.predictions]
        shares = [prediction.probability for prediction in step.predictions]
        panel.barh(range(len(names)), shares, color="#3b6ea5")
        panel.set_yticks(range(len(names)), names, parse_math=False)
        panel.invert_yaxis()
        panel.set_xlim(0, 1)
        panel.set_title(for_markup(step.text)[-70:] or "(the beginning)", loc="left", fontsize=9, parse_math=False)
    panels[-1].set_xlabel("probability")
    save(figure, path)
