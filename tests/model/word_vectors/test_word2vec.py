"""The compiled loop against the reference, and what becomes of odd texts."""

import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.model.word_vectors.learner import Learner, Text
from dragoman.model.word_vectors.word2vec import Word2Vec, Word2VecConfig
from tests.model.word_vectors.reference import Reference

ROOT = Path(__file__).resolve().parents[3]
FORMS, OUTPUTS = ("skipgram", "cbow"), ("negative", "hierarchical", "softmax")
ZIPF = np.maximum(1, (2000 / np.arange(1, 41)).astype(np.int64))


def config(**changes: Any) -> Word2VecConfig:
    return replace(Word2VecConfig(width=20, sample=0.02, window=4), **changes)


def text(counts: np.ndarray, words: int, seed: int = 1, record: int = 23) -> Text:
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(counts), words, p=counts / counts.sum()).astype(np.int32)
    rows[rng.random(words) < 0.05] = -1
    return Text(rows, np.append(np.arange(0, words, record), words).astype(np.int64))


def learner(settings: Word2VecConfig, counts: np.ndarray) -> Word2Vec:
    """With output rows that are not zero, so that all of a step counts from the first window on."""
    made, rng = Word2Vec(settings, counts, 1), np.random.default_rng(2)
    for table in made.tables.values():
        table[:, : settings.width] = rng.normal(0, 0.4, (len(table), settings.width))
    return made


def check(settings: Word2VecConfig, counts: np.ndarray, words: Text, lr: float = 0.05) -> None:
    """Ours and the reference from the same tables: the same tables after, the same loss, the same count."""
    ours = learner(settings, counts)
    begin = ours.vectors()
    plain = Reference(settings, counts, begin["vectors"], begin["contexts"])
    loss, predictions = ours.train(words, lr, seed=7, threads=1)
    expected, count = plain.train(words, lr, seed=7)
    assert predictions == count > 0
    assert loss == pytest.approx(expected, rel=2e-5)
    after = ours.vectors()
    np.testing.assert_allclose(after["vectors"], plain.inputs, atol=2e-5)
    np.testing.assert_allclose(after["contexts"], plain.outputs, atol=2e-5)
    assert np.abs(after["vectors"] - begin["vectors"]).max() > 1e-3
    for table in ours.tables.values():
        assert not table[:, settings.width :].any(), "the padding took part"


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("algorithm", FORMS)
@pytest.mark.parametrize("width", [1, 33])
def test_every_form_and_width_is_the_reference(algorithm: str, output: str, width: int) -> None:
    check(config(algorithm=algorithm, output=output, width=width), ZIPF, text(ZIPF, 120))


@pytest.mark.parametrize("algorithm", FORMS)
@pytest.mark.parametrize(
    "changes",
    [
        {"dynamic_window": False},
        {"mean": False},
        {"window": 30},
        {"negatives": 20},
        {"exponent": 0.0},
        {"sample": 0.0},
    ],
    ids=str,
)
def test_every_setting_is_the_references(algorithm: str, changes: dict[str, Any]) -> None:
    check(config(algorithm=algorithm, **changes), ZIPF, text(ZIPF, 120))


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    "counts", [np.array([3, 2]), np.full(500, 9), np.array([10**9, 5, 1, 1])], ids=["two", "uniform", "extreme"]
)
def test_vocabularies_at_the_extremes_are_the_reference(counts: np.ndarray, output: str) -> None:
    check(config(output=output, sample=0.0), counts, text(np.sqrt(counts), 200))


def test_windows_stay_inside_of_a_record_and_close_over_left_out_words() -> None:
    settings = config(sample=0.0, dynamic_window=False)

    def pairs(rows: list[int], *offsets: int) -> int:
        words = Text(np.array(rows, dtype=np.int32), np.array(offsets, dtype=np.int64))
        return learner(settings, ZIPF).train(words, 0.05, 1, 1)[1]

    assert pairs([1, 2, 3, 4], 0, 4) == 12
    assert pairs([1, 2, 3, 4], 0, 2, 4) == 4
    assert pairs([1, 2, 3, 4], 0, 1, 1, 4) == 6
    assert pairs([1, -1, 3, -1], 0, 4) == 2
    assert pairs([1, -1, -1, -1, -1, -1, -1, 2], 0, 8) == 2, "a left-out word takes no place in a window"
    assert pairs([9, 1, 2, 9], 1, 3) == 2, "a text may begin and end inside of its array"


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("algorithm", FORMS)
def test_a_text_without_a_pair_changes_nothing(algorithm: str, output: str) -> None:
    ours = learner(config(algorithm=algorithm, output=output, sample=1e-12), ZIPF)
    before = ours.vectors()
    empty, none = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
    for words in (
        text(ZIPF, 2000),  # all subsampled away
        Text(empty, none),
        Text(empty, np.zeros(3, dtype=np.int64)),
        Text(np.full(9, -1, dtype=np.int32), np.array([0, 9])),
        Text(np.arange(9, dtype=np.int32), np.arange(10)),  # records of one word
    ):
        assert ours.train(words, 0.05, 1, threads=2) == (0.0, 0)
    for name, table in ours.vectors().items():
        assert np.array_equal(table, before[name])


def test_the_text_may_be_read_only_and_of_other_integers() -> None:
    words = text(ZIPF, 500)
    rows = words.rows.astype(np.int64)
    rows.flags.writeable = False
    plain, odd = learner(config(), ZIPF), learner(config(), ZIPF)
    plain.train(words, 0.05, 1, 1)
    odd.train(Text(rows, words.offsets.astype(np.int32)), 0.05, 1, 1)  # type: ignore[arg-type]  # on purpose
    assert np.array_equal(plain.tables["vectors"], odd.tables["vectors"])


@pytest.mark.parametrize(
    "form",
    [*({"algorithm": form, "output": output} for form in FORMS for output in ("negative", "hierarchical"))],
    ids=str,
)
def test_vectors_find_the_groups_of_a_toy_language(form: dict[str, Any]) -> None:
    """Eight topics of 25 words; a record holds words of one topic. Neighbours must be of the same topic."""
    topics, each, rng = 8, 25, np.random.default_rng(1)
    topic = np.repeat(rng.integers(0, topics, 4000), 10)
    rows = (topic * each + rng.integers(0, each, len(topic))).astype(np.int32)
    order = np.argsort(-np.bincount(rows), kind="stable")  # row -> word
    rank = np.argsort(order).astype(np.int32)
    words = Text(rank[rows], np.arange(0, len(rows) + 1, 10, dtype=np.int64))
    ours: Learner = Word2Vec(config(sample=0.0, **form), np.bincount(words.rows), 1)
    losses = []
    for epoch in range(8):
        loss, predictions = ours.train(words, 0.1 - 0.01 * epoch, epoch, threads=2)
        losses.append(loss / predictions)
    assert losses[-1] < 0.9 * losses[0]
    vectors = ours.vectors()["vectors"]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = vectors @ vectors.T
    np.fill_diagonal(likeness, -1)
    nearest = likeness.argmax(axis=1)
    assert (order[nearest] // each == order // each).mean() > 0.95


def test_huge_scores_make_no_nan_but_a_nan_stays_to_be_found() -> None:
    for output in OUTPUTS:
        ours = learner(config(output=output), ZIPF)
        for table in ours.tables.values():
            table *= 1000
        loss, _ = ours.train(text(ZIPF, 500), 0.05, 1, 1)
        assert np.isfinite(loss)
        assert all(np.isfinite(table).all() for table in ours.tables.values())
        ours.tables["vectors"][3] = np.nan
        ours.train(text(ZIPF, 500), 0.05, 1, 1)
        assert np.isnan(ours.tables["vectors"][3]).all()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names a processor of the x86 kind")
@pytest.mark.long
def test_machines_with_shorter_registers_compute_the_same(tmp_path: Path) -> None:
    """A processor with AVX2 and without AVX-512, whose vectors hold 8 numbers."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_word2vec import ZIPF, check, config, text\n"
        "for algorithm in ('skipgram', 'cbow'):\n"
        "    for output in ('negative', 'hierarchical'):\n"
        "        check(config(algorithm=algorithm, output=output, width=33), ZIPF, text(ZIPF, 200))\n"
        "from dragoman.model.word_vectors.simd import LANES\n"
        "assert LANES == 8\n"
    )
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path),
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, timeout=300)


def test_numba_is_needed_for_training_alone() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import numpy as np\n"
        "from tests.model.word_vectors.reference import Reference\n"
        "from dragoman.model.word_vectors.word2vec import Word2Vec, Word2VecConfig\n"
        "Word2Vec(Word2VecConfig(), np.array([2, 1]), 1).vectors()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)
