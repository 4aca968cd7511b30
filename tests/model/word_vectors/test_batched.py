"""word2vec in torch against plain loops in float64 with the same draws, and what is drawn against its distribution."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dragoman.model.word_vectors.batched import BatchedWord2Vec
from dragoman.model.word_vectors.draws import NO_RECORD, Draws
from dragoman.model.word_vectors.huffman import HuffmanTree
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.sampling import AliasTable
from dragoman.model.word_vectors.word2vec import Word2VecConfig
from tests.model.word_vectors.reference import Reference, Window, likelihood

WORDS = 30
COUNTS = np.sort(np.random.default_rng(0).integers(1, 60, WORDS))[::-1].astype(np.int64).copy()
Tables = dict[str, NDArray[np.float64]]
VARIANTS = list(product(["skipgram", "cbow"], ["negative", "hierarchical", "softmax"]))
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")


def text(tokens: int = 200, records: int = 7, seed: int = 1) -> Text:
    """Rows by the counts, one in ten left out, in records of several lengths, an empty one among them."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(WORDS, tokens, p=COUNTS / COUNTS.sum()).astype(np.int32)
    rows[rng.random(tokens) < 0.1] = -1
    cuts = np.sort(rng.integers(0, tokens, records - 2))
    return Text(rows, np.concatenate([[0], cuts, [tokens, tokens]]).astype(np.int64))


def config(algorithm: str = "skipgram", output: str = "negative", **changes: object) -> Word2VecConfig:
    values = {
        "algorithm": algorithm,
        "output": output,
        "width": 20,
        "window": 3,
        "negatives": 4,
        "sample": 0.05,
        **changes,
    }
    return Word2VecConfig(**values)  # type: ignore[arg-type]


def learner(settings: Word2VecConfig, tokens: int = 8, **place: str) -> BatchedWord2Vec:
    """With contexts that are not zero, so that every product counts."""
    made = BatchedWord2Vec(settings, COUNTS, seed=5, tokens=tokens, **place)  # type: ignore[arg-type]
    rng = np.random.default_rng(2)
    for table in (made.step.vectors, made.step.contexts):
        table[:, : settings.width] = torch.from_numpy(rng.normal(0, 0.3, (len(table), settings.width)))
    return made


def windows(settings: Word2VecConfig, draws: Draws) -> list[Window]:
    """Returns the target of each kept word of the draws, and its inputs."""
    rows, records, radius = (getattr(draws, name).numpy() for name in ("rows", "records", "radius"))
    tree, found = HuffmanTree.of(COUNTS), []
    for at in range(settings.window, settings.window + draws.kept):
        word, near = int(rows[at]), np.arange(at - radius[at], at + radius[at] + 1)
        around = rows[near[(near != at) & (records[near] == records[at])]].tolist()
        targets, signs = list(range(WORDS)), []
        if settings.output == "negative":
            drawn = [row for row in draws.negatives[at].tolist() if row != word]
            targets, signs = [word, *drawn], [1, *[-1] * len(drawn)]
        elif settings.output == "hierarchical":
            path = slice(tree.offsets[word], tree.offsets[word + 1])
            targets, signs = tree.nodes[path].tolist(), (1 - 2 * tree.codes[path].astype(int)).tolist()
        found.append(Window(word, around, targets, signs))
    return found


def plain(settings: Word2VecConfig, tables: Tables, draws: Draws, lr: float, tokens: int) -> tuple[float, int]:
    """The same updates word by word: each step of `tokens` words reads the tables of before the step."""
    every, loss, predictions = windows(settings, draws), 0.0, 0
    for start in range(0, len(every), tokens):
        vectors, contexts = tables["vectors"].copy(), tables["contexts"].copy()
        for window in every[start : start + tokens]:
            old = vectors[window.around]  # (C, d)
            if settings.algorithm == "cbow" and window.around:
                old = (old.mean(0) if settings.mean else old.sum(0))[None]
            for row, x in enumerate(old):
                part, errors = likelihood(x[None], contexts[window.targets], window)  # errors (1, T)
                moved = [window.around[row]] if settings.algorithm == "skipgram" else window.around
                np.add.at(tables["vectors"], moved, -lr * errors @ contexts[window.targets])
                np.add.at(tables["contexts"], window.targets, -lr * errors.T @ x[None])
                loss, predictions = loss + part, predictions + 1
    return loss, predictions


@pytest.mark.parametrize(("algorithm", "output"), VARIANTS)
@pytest.mark.parametrize("tokens", [1, 32])
def test_equals_plain_loops_with_the_same_draws(algorithm: str, output: str, tokens: int) -> None:
    settings = config(algorithm, output)
    ours = learner(settings, tokens)
    expected = {name: table.astype(np.float64) for name, table in ours.tables.items()}
    loss, predictions = ours.train(text(), 0.1, seed=3, threads=1)
    draws = ours.sampler.draw(text(), 3, tokens + settings.window)
    assert 0 < draws.kept < 180  # some are left out, some are subsampled away
    expected_loss, expected_predictions = plain(settings, expected, draws, 0.1, tokens)
    assert predictions == expected_predictions > 100
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    for name, table in ours.tables.items():
        np.testing.assert_allclose(table, expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("algorithm", "output"), VARIANTS)
def test_one_word_a_step_is_the_reference_implementation(algorithm: str, output: str) -> None:
    """In windows without a word twice: of two the fast kernel, and the reference with it, moves one first."""
    order = np.random.default_rng(4).permutation(WORDS).astype(np.int32)
    segment = Text(np.tile(order, 6), np.array([0, 100, 180]))
    settings = config(algorithm, output)
    ours = learner(settings, tokens=1)
    found = ours.vectors()
    reference = Reference(settings, COUNTS, found["vectors"], found["contexts"])
    every = windows(settings, ours.sampler.draw(segment, 3, 4))
    expected = sum(reference.step(window, 0.1) for window in every if window.around)
    loss, _ = ours.train(segment, 0.1, seed=3, threads=1)
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(ours.vectors()["vectors"], reference.inputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.vectors()["contexts"], reference.outputs, rtol=1e-4, atol=1e-5)


def test_cbow_may_predict_from_the_sum() -> None:
    settings = config("cbow", mean=False)
    ours = learner(settings)
    expected = {name: table.astype(np.float64) for name, table in ours.tables.items()}
    ours.train(text(), 0.1, seed=3, threads=1)
    plain(settings, expected, ours.sampler.draw(text(), 3, 11), 0.1, 8)
    np.testing.assert_allclose(ours.tables["vectors"], expected["vectors"], rtol=1e-4, atol=1e-5)


def test_a_segment_of_which_nothing_is_left_changes_nothing() -> None:
    ours = learner(config(sample=1e-12))
    before = ours.tables["vectors"].copy()
    nothing = Text(np.full(9, -1, np.int32), np.array([0, 4, 9]))
    alone = Text(np.array([1, 2, 3], np.int32), np.array([0, 1, 2, 3]))  # records of one word: no window
    for segment in (nothing, alone, Text(np.zeros(0, np.int32), np.zeros(1, np.int64)), text()):
        assert ours.train(segment, 0.1, 1, 1) == (0.0, 0)
    assert np.array_equal(ours.tables["vectors"], before)


def test_training_lowers_the_loss_and_brings_companions_together() -> None:
    """Words come in pairs (2k, 2k + 1) that stand side by side."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, WORDS // 2, 4000) * 2
    rows = np.stack([first, first + 1], 1).ravel().astype(np.int32)
    offsets = np.arange(0, 8001, 2)
    settings = config(width=10, window=1, sample=0.0)
    ours = BatchedWord2Vec(settings, np.full(WORDS, 300), seed=1, tokens=64)
    loss, predictions = ours.train(Text(rows, offsets[:31]), 0.1, 0, 1)
    assert predictions == 60
    assert loss / predictions == pytest.approx(5 * math.log(2), rel=0.05)  # one yes and four noes at even chances
    for epoch in range(6):
        loss, predictions = ours.train(Text(rows, offsets), 0.1, epoch, 1)
    assert loss / predictions < 0.8
    found = ours.vectors()
    chosen = (found["vectors"] @ found["contexts"].T).argmax(1)
    assert (chosen == np.arange(WORDS) ^ 1).mean() > 0.9


def test_draws_follow_their_distributions() -> None:
    settings = config(sample=0.02, negatives=5)
    sampler = learner(settings).sampler
    rows = np.repeat(np.arange(WORDS, dtype=np.int32), 2000)
    draws = sampler.draw(Text(rows, np.array([0, len(rows)])), 1, 16)
    share = COUNTS / COUNTS.sum() / 0.02
    keep = np.minimum(1, (np.sqrt(share) + 1) / share)
    kept = draws.rows[3 : 3 + draws.kept]
    np.testing.assert_allclose(np.bincount(kept, minlength=WORDS) / 2000, keep, atol=0.05)
    np.testing.assert_allclose(np.bincount(draws.radius)[1:] / len(draws.radius), 1 / 3, atol=0.02)
    found = np.bincount(draws.negatives.flatten(), minlength=WORDS) / draws.negatives.numel()
    np.testing.assert_allclose(found, AliasTable.of(COUNTS, 0.75).probabilities(), atol=0.005)
    assert draws.rows.shape == draws.records.shape == draws.radius.shape == draws.negatives.shape[:1]
    assert (draws.records[:3] == NO_RECORD).all() and (draws.records[-16:] == NO_RECORD).all()


def test_windows_may_all_be_wide() -> None:
    draws = learner(config(dynamic_window=False)).sampler.draw(text(), 1, 8)
    assert (draws.radius == 3).all()


def test_a_share_of_a_text_is_that_share_alone() -> None:
    """A thread's part may begin in the middle of the rows."""
    whole = text()
    part = Text(whole.rows, whole.offsets[2:4])
    cut = Text(whole.rows[whole.offsets[2] : whole.offsets[3]], whole.offsets[2:4] - whole.offsets[2])
    one, other = learner(config(sample=0.0)), learner(config(sample=0.0))
    assert one.train(part, 0.1, 1, 1) == other.train(cut, 0.1, 1, 1)


@GPU
@pytest.mark.parametrize(("algorithm", "output"), VARIANTS)
def test_a_gpu_equals_plain_loops(algorithm: str, output: str) -> None:
    settings = config(algorithm, output)
    ours = learner(settings, 32, device="cuda")
    for seed, segment in enumerate((text(), text(90), text(400))):
        expected = {name: table.double().cpu().numpy() for name, table in ours.tables.items()}
        loss, predictions = ours.train(segment, 0.1, seed, 1)
        drawn = ours.sampler.draw(segment, seed, 32 + settings.window)
        draws = Draws(*(getattr(drawn, k).cpu() for k in ("rows", "records", "radius", "negatives")), drawn.kept)
        expected_loss, expected_predictions = plain(settings, expected, draws, 0.1, 32)
        assert predictions == expected_predictions
        assert loss == pytest.approx(expected_loss, rel=1e-4)
        for name, table in ours.tables.items():
            np.testing.assert_allclose(table.cpu().numpy(), expected[name], rtol=1e-3, atol=1e-4)
