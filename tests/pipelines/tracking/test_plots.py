import math
from collections.abc import Mapping
from io import BytesIO

from matplotlib.figure import Figure

from dragoman.pipelines.tracking import plots


def drawn(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def curves(metrics: Mapping[str, plots.Points]) -> Figure:
    figure = plots.curves(metrics, "title")
    assert figure is not None
    return figure


def test_only_what_was_measured_has_a_panel() -> None:
    assert plots.curves({}, "nothing") is None
    assert plots.curves({"loss": [(1, math.nan)]}, "nothing finite") is None
    few = curves({"loss": [(1, 2.0), (2, 1.0)], "valid_bleu": [], "lr": [(1, 0.1)], "tokens_per_second": [(1, 9.0)]})
    assert [axis.get_title("left") for axis in few.axes] == ["Loss", "Learning rate", "Speed"]
    assert all(axis.lines for axis in few.axes)
    assert drawn(few).startswith(b"\x89PNG")


def test_values_that_are_not_finite_are_left_out() -> None:
    points = [(1, math.nan), (2, 3.0), (3, math.inf), (4, 1.0)]
    line = curves({"loss": points}).axes[0].lines[0]
    assert list(line.get_xdata()) == [2, 4]


def test_the_best_validation_score_is_named() -> None:
    figure = curves({"valid_bleu": [(100, 10.0), (200, 39.5), (300, 38.0)]})
    assert figure.axes[0].texts[0].get_text() == "best 39.50 at step 200"


def test_the_running_mean_lies_among_its_values() -> None:
    points = [(step, 100.0 - step) for step in range(100)]
    line = curves({"loss": points}).axes[0].lines[1]
    assert all(abs(mean - (100.0 - step)) < 1e-9 for step, mean in zip(line.get_xdata(), line.get_ydata(), strict=True))


def test_buckets_are_labelled_with_their_bounds() -> None:
    figure = plots.length_histogram([1, 4, 8], {"en": [1, 2, 3, 4], "de": [4, 3, 2, 1]}, "lengths")
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "2-4", "5-8", "> 8"]
    assert drawn(figure)


def test_what_was_dropped_is_named_with_its_count() -> None:
    figure = plots.draw_dropped({"blank": 1200, "copy": 0}, 10_000, "dropped")
    assert figure is not None
    assert [label.get_text().strip() for label in figure.axes[0].texts] == ["1,200"]
    assert plots.draw_dropped({"blank": 0}, 5, "none") is None, "no picture of nothing"
