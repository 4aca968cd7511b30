"""The picture of `dragoman next` and `fill`: a panel of bars per step."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.model.alignment.attention_plots import save, shorten_label
from dragoman.model.decoding.likely import Step
from dragoman.model.text.excerpt import for_markup

SUFFIXES = (".png", ".svg", ".pdf")


def guess_picture(steps: Sequence[Step], path: Path) -> None:
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
