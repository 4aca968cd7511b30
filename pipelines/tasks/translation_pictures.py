"""Two pictures of a translation model for its run: sample translations, and what their words looked at."""

import logging
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.model.alignment.attention_plots import fonts, maps_picture, save
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.errors import UserError
from dragoman.model.inference.aligner import open_aligner
from dragoman.pipelines.evaluation.metrics import Sample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST, EXAMPLES, LONGEST = 8, 4, 90  # samples, attention maps, characters of a map's sentence
WIDTH = 100  # characters of a line
LINE = 0.2  # inches
COLOURS = {"source": "#555555", "translation": "#2463a8", "reference": "#2f8f5b"}
logger = logging.getLogger(__name__)


def save_pictures(samples: Sequence[Sample], bundle: TranslationBundle, folder: Path) -> list[Path]:
    """Writes `samples.png`, and `attention.png` if the network has attention; returns the files."""
    if not samples:
        return []
    folder.mkdir(exist_ok=True)
    drawn = {"samples": samples_picture(samples), "attention": attention_picture(samples, bundle)}
    files = []
    for name, figure in drawn.items():
        if figure is not None:
            files.append(folder / f"{name}.png")
            save(figure, files[-1])
    return files


def samples_picture(samples: Sequence[Sample]) -> "Figure":
    """Draws source, translation and reference of the first samples, one paragraph each."""
    from matplotlib.figure import Figure

    rows: list[tuple[str, str]] = []
    for sample in samples[:MOST]:
        sides = {"source": sample.source, "translation": sample.hypothesis, "reference": sample.reference}
        for side, text in sides.items():
            visible = "".join(letter if letter.isprintable() else " " for letter in text)
            rows += [(side, line) for line in textwrap.wrap(visible, WIDTH) or ["–"]]
        rows.append(("source", ""))
    figure = Figure(figsize=(10.0, LINE * len(rows) + 0.4))
    for number, (side, line) in enumerate(rows):
        height = 1 - (number + 1) / (len(rows) + 1)
        figure.text(0.02, height, line, color=COLOURS[side], fontsize=9, family=fonts(), parse_math=False)
    figure.text(0.98, 0.01, "grey: source, blue: translation, green: reference", fontsize=8, ha="right")
    return figure


def attention_picture(samples: Sequence[Sample], bundle: TranslationBundle) -> "Figure | None":
    """Draws the attention of short samples' translations; None if there are none, or no attention."""
    short = [one for one in samples if one.hypothesis and max(len(one.source), len(one.hypothesis)) <= LONGEST]
    if not short:
        return None
    try:
        aligner = open_aligner(bundle)
    except UserError as problem:
        logger.debug("no picture of attention: %s", problem)
        return None
    chosen = short[:EXAMPLES]
    targets = aligner.tokenizers.target.encode([one.hypothesis for one in chosen])
    maps = aligner.maps([one.source for one in chosen], [ids.tolist() for ids in targets])
    return maps_picture(maps, [f"{one.head}, read by {one.reading}" for one in maps])
