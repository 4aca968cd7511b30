"""`dragoman evaluate` of word vectors: the same verb, other sets."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import eye

from dragoman.model.bundles.vectors import save_vectors
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair
from dragoman.model.text.words import WordTokenizer
from dragoman.model.word_vectors.counting import OneHotConfig
from dragoman.model.word_vectors.word2vec import Word2VecConfig
from dragoman.pipelines import entries

WORDS = ["east", "north", "west", "northeast", "southwest"]
PLANE = np.array([[1, 0], [0, 1], [-1, 0], [0.8, 0.6], [-0.7, -0.7]], np.float32)


def save(run: Path, config: Any, tables: Any) -> Path:
    tokens = WordTokenizer([*SPECIAL_PIECES, *WORDS])
    save_vectors(
        run / "bundle",
        words=WORDS,
        counts=np.arange(5, 0, -1),
        tables=tables,
        config=config,
        tokenizer=TokenizerPair(tokens, tokens),
        facts={"pair": "en", "run": {"name": run.name, "id": None}},
    )
    return run


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Three runs, a similarity set, and the overrides that name them."""
    runs = tmp_path / "runs"
    save(runs / "plane", Word2VecConfig(width=2), {"vectors": PLANE})
    save(runs / "mirror", Word2VecConfig(width=2), {"vectors": PLANE[::-1].copy()})
    save(runs / "onehot", OneHotConfig(), {"vectors": eye(5).tocsr()})
    lines = "east northeast 9\neast north 5\neast west 1\nwest southwest 8\nnorth southwest 2\n"
    (tmp_path / "five.txt").write_text(lines, encoding="utf-8")
    return [
        *(f"paths.root={tmp_path}", f"paths.shards={tmp_path}/none", "bundle=plane"),
        *(f"vectors.evaluate.root={tmp_path}", "vectors.evaluate.similarity=[five.txt]", "evaluate.trials=100"),
    ]


def test_a_bundle_is_measured_and_drawn(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entries.main(["evaluate", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "five               100.0       5 of 5" in printed
    record = json.loads((tmp_path / "runs/plane/evaluation.vectors.json").read_text())
    assert record["scores"]["similarity/five"] == pytest.approx(100)
    pictures = {path.stem for path in (tmp_path / "runs/plane/pictures").iterdir()}
    assert pictures == {"projection"}


def test_methods_are_compared_on_the_words_that_both_have(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entries.main(["evaluate", *arguments, "evaluate.against=[mirror,onehot]"]) == 0
    lines = [line for line in capsys.readouterr().out.split("\n") if line.startswith("similarity 100.0000 against")]
    assert [line.split()[3] for line in lines] == ["mirror", "onehot"] and all("p = " in line for line in lines)


def test_mistakes_are_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entries.main(["evaluate", *arguments, "evaluate.against=nowhere"]) == 2
    assert "'nowhere' is neither a bundle's directory" in capsys.readouterr().err
    assert entries.main(["evaluate", *arguments, "vectors.evaluate.similarity=[six.txt]"]) == 2
    assert "six.txt cannot be read" in capsys.readouterr().err
