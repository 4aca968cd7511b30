"""Pictures of attention: labels as they are, any size drawn."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.alignment.attention_plots import heads_picture, maps_picture, save


def attention(source: list[str], target: list[str]) -> AttentionMap:
    weights = np.full((len(target) + 1, len(source) + 1), 1.0 / (len(source) + 1), np.float32)
    return AttentionMap((*source, END), (*target, END), weights, "l0h0", "output")


def test_labels_are_the_words_as_they_are(tmp_path: Path) -> None:
    one = attention(["costs", "$5", "or", "$6", "a" * 30], ["kostet"])
    figure = maps_picture([one], ["kostet $5 or $6"])
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_xticklabels()] == ["costs", "$5", "or", "$6", "a" * 19 + "…", END]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["kostet", END]
    save(figure, tmp_path / "one.png")  # a formula would fail here


@pytest.mark.parametrize("lengths", [[1], [3, 40, 5]])
def test_maps_of_any_number_and_length_are_drawn(tmp_path: Path, lengths: list[int]) -> None:
    maps = [attention(["word"] * length, ["wort"] * length) for length in lengths]
    figure = maps_picture(maps, [f"{length}" for length in lengths])
    save(figure, tmp_path / "maps.png")
    assert (tmp_path / "maps.png").stat().st_size > 1000
    assert sum(bool(axis.images) for axis in figure.axes) == len(lengths)


def test_signs_without_a_font_are_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(maps_picture([attention(["\U0001f9ff\U00012000"], ["x"])], ["\U00012000"]), tmp_path / "signs.png")
    assert caplog.text.count("shown as boxes") <= 1
    assert (tmp_path / "signs.png").exists()


def test_every_head_has_a_panel(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
    figure = heads_picture(weights, list("abcde"), list("wxyz"), "every head")
    assert [axis.get_xlabel() for axis in figure.axes] == ["l0h0", "l0h1", "l0h2", "l1h0", "l1h1", "l1h2"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list("wxyz")
    assert not figure.axes[4].get_yticklabels()
    save(figure, tmp_path / "heads.png")
