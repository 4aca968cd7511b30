"""The reference itself: its gradients are those of its loss, by finite differences."""

import numpy as np
import pytest

from dragoman.model.word_vectors.word2vec import Word2VecConfig
from tests.model.word_vectors.reference import Chance, Reference, Window, likelihood

V, D, LR = 6, 3, 1e-3
rng = np.random.default_rng(5)
WINDOWS = {
    "negative": Window(2, [0, 5, 4], [2, 1, 3], [1, -1, -1]),
    "hierarchical": Window(2, [0, 5, 4], [0, 3, 4], [1, -1, 1]),
    "softmax": Window(2, [0, 5, 4], list(range(V)), []),
}


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow"])
@pytest.mark.parametrize("output", WINDOWS)
def test_a_step_goes_down_the_gradient_of_the_loss(algorithm: str, output: str) -> None:
    config = Word2VecConfig(algorithm=algorithm, output=output, width=D, mean=False)  # type: ignore[arg-type]  # from the table
    counts, window = np.array([9, 7, 5, 4, 3, 2]), WINDOWS[output]
    inputs, outputs = rng.normal(size=(V, D)), rng.normal(size=(V, D))

    def loss(x: np.ndarray, y: np.ndarray) -> float:
        old = x[window.around]
        return likelihood(old.sum(axis=0)[None] if algorithm == "cbow" else old, y[window.targets], window)[0]

    moved = Reference(config, counts, inputs, outputs)
    assert moved.step(window, LR) == pytest.approx(loss(inputs, outputs))
    for table, after in ((inputs, moved.inputs), (outputs, moved.outputs)):
        gradient = (table - after) / LR
        for place in np.ndindex(*table.shape):
            kept, sides = table[place], []
            for step in (1e-6, -1e-6):
                table[place] = kept + step
                sides.append(loss(inputs, outputs))
            table[place] = kept
            assert (sides[0] - sides[1]) / 2e-6 == pytest.approx(gradient[place], rel=1e-5, abs=1e-7)


def test_the_mean_of_a_window_gives_its_whole_error_to_every_word() -> None:
    counts, window = np.array([9, 7, 5, 4, 3, 2]), WINDOWS["negative"]
    inputs, outputs = rng.normal(size=(V, D)), rng.normal(size=(V, D))
    reference = Reference(Word2VecConfig(algorithm="cbow", width=D), counts, inputs, outputs)
    reference.step(window, LR)
    changes = (reference.inputs - inputs)[window.around]
    hidden = inputs[window.around].mean(axis=0)
    signs = np.array(window.signs)
    whole = (LR * signs / (1 + np.exp(signs * (outputs[window.targets] @ hidden)))) @ outputs[window.targets]
    np.testing.assert_allclose(changes, np.repeat(whole[None], 3, axis=0))


def test_chance_is_splitmix64_and_even() -> None:
    chance = Chance(0)
    chance.state = 1234567
    assert [chance.draw() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert Chance(1).state != Chance(1, thread=1).state != Chance(2, thread=1).state
    found = np.bincount([chance.below(5) for _ in range(20_000)], minlength=6)
    assert found[5] == 0
    assert np.abs(found[:5] - 4000).max() < 250
