"""An evaluation holds what was measured, names what was not found, and reads back from its report."""

import json
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.evaluation.word_vectors.evaluation import evaluate_embeddings, read_sets, report
from dragoman.pipelines.word_vectors.settings import EvaluateVectors

WORDS = ["east", "north", "west", "northeast", "Rome"]
PLANE = Embeddings(WORDS, None, np.array([[1, 0], [0, 1], [-1, 0], [0.8, 0.6], [0.1, 0.2]]))


@pytest.fixture
def settings(tmp_path: Path) -> EvaluateVectors:
    (tmp_path / "three.txt").write_text("east northeast 9\neast north 5\neast west 1\n", encoding="utf-8")
    (tmp_path / "two.txt").write_text("east north 1\neast northeast 5\neast moon 5\n", encoding="utf-8")
    (tmp_path / "flat.txt").write_text("east north 5\neast west 5\n", encoding="utf-8")
    (tmp_path / "q.txt").write_text(": places\neast north west Rome\neast north moon sun\n", encoding="utf-8")
    return EvaluateVectors(root=str(tmp_path), similarity=["three.txt", "two.txt", "flat.txt"], analogies=["q.txt"])


def test_scores_are_weighted_by_what_was_found(settings: EvaluateVectors) -> None:
    scores = evaluate_embeddings(PLANE, settings).scores()
    assert scores["similarity/three"] == pytest.approx(100)
    assert scores["coverage/two"] == pytest.approx(200 / 3)
    assert "similarity/flat" not in scores, "people gave all its pairs the same mark"
    assert scores["similarity/mean"] == pytest.approx(100)
    assert scores["coverage/q"] == 50.0
    assert {"analogies/q/places", "analogies_3cosmul/q/total", "analogies/mean"} < set(scores)
    json.dumps(scores, allow_nan=False)


def test_words_are_chosen_or_named_and_the_unknown_said(settings: EvaluateVectors) -> None:
    assert list(evaluate_embeddings(PLANE, settings).neighbours) == ["east", "north", "west", "northeast"]
    settings.words, settings.neighbours = ["ROME", "moon", "Rome", "East"], 2
    found = evaluate_embeddings(PLANE, settings)
    assert list(found.neighbours) == ["Rome", "east"]
    assert [one.word for one in found.neighbours["east"]] == ["northeast", "Rome"]
    assert found.unknown == ["ROME", "moon"]


def test_without_a_root_there_are_neighbours_only() -> None:
    found = evaluate_embeddings(PLANE, EvaluateVectors(similarity=["three.txt"]))
    assert found.scores() == {}
    assert len(found.neighbours) > 1
    assert "neighbours" in report(found) or "north" in report(found)


def test_the_report_shows_scores_and_coverage(settings: EvaluateVectors) -> None:
    settings.words = ["moon"]
    text = report(evaluate_embeddings(PLANE, settings))
    assert "three              100.0" in text
    assert "2 of 3" in text
    assert "q, among 5 words" in text
    assert "1 of 2" in text
    assert "flat                   -" in text
    assert "not among the words: moon" in text


def test_what_cannot_be_read_is_named(settings: EvaluateVectors, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vectors.evaluate.root: '.*nowhere' is no folder"):
        read_sets(EvaluateVectors(root=str(tmp_path / "nowhere")))
    with pytest.raises(UserError, match=r"four\.txt cannot be read"):
        read_sets(EvaluateVectors(root=str(tmp_path), similarity=["four.txt"]))
    with pytest.raises(UserError, match="two files are called q"):
        read_sets(EvaluateVectors(root=str(tmp_path), analogies=["q.txt", "sub/q.csv"]))
