"""The Triton kernel against the torch step: on a GPU where there is one, else by Triton's interpreter."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from types import ModuleType

import numpy as np
import pytest
import torch

from dragoman.model.word_vectors.batched import BatchedWord2Vec
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.step import Step
from dragoman.model.word_vectors.word2vec import Word2VecConfig

if importlib.util.find_spec("triton") is None:
    pytest.skip("the package triton is not installed (torch's builds for GPUs bring it)", allow_module_level=True)

VARIANTS = list(product(["skipgram", "cbow"], ["negative", "hierarchical"]))
WORDS = 60
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def kernel() -> Iterator[ModuleType]:
    """The module, interpreted where no GPU is: that is decided when it and Triton are imported."""
    with pytest.MonkeyPatch.context() as patch:
        if DEVICE == "cpu":
            if "triton" in sys.modules and not os.environ.get("TRITON_INTERPRET"):
                pytest.skip("another test has loaded Triton for a GPU: run this file alone, or with TRITON_INTERPRET=1")
            patch.setenv("TRITON_INTERPRET", "1")
        yield importlib.import_module("dragoman.model.word_vectors.triton_kernel")
        sys.modules.pop("dragoman.model.word_vectors.triton_kernel")


def learner(algorithm: str, output: str) -> BatchedWord2Vec:
    settings = Word2VecConfig(algorithm=algorithm, output=output, width=20, window=3, negatives=4, sample=0.0)  # type: ignore[arg-type]
    made = BatchedWord2Vec(settings, np.arange(WORDS, 0, -1), seed=1, device=DEVICE, path="steps", tokens=1)
    drawn = torch.randn(len(made.step.contexts), 20, generator=torch.Generator().manual_seed(2))
    made.step.contexts[:, :20] = 0.3 * drawn
    return made


def outcome(step: Step) -> list[np.ndarray]:
    return [tensor.cpu().numpy() for tensor in (step.vectors, step.contexts, step.totals)]


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow"])
@pytest.mark.parametrize("programs", [1, 4, 1000])
def test_windows_that_share_no_row_give_the_steps_numbers_in_any_order(
    algorithm: str, programs: int, kernel: ModuleType
) -> None:
    """Records of two words, negatives that nobody else has."""
    one, other = learner(algorithm, "negative"), learner(algorithm, "negative")
    text = Text(np.arange(10, dtype=np.int32), np.arange(0, 11, 2))
    draws = one.sampler.draw(text, 1, 4)
    own = torch.arange(draws.negatives.numel(), device=DEVICE).view(draws.negatives.shape) % (WORDS - 10) + 10
    draws = replace(draws, negatives=own)
    kernel.learn(one.step, draws, 0.1, programs)
    with torch.no_grad():
        for start in range(10):
            other.step(draws, torch.tensor(start, device=DEVICE), torch.tensor(0.1, device=DEVICE))
    for mine, theirs in zip(outcome(one.step), outcome(other.step), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    DEVICE == "cuda", reason="on a GPU the lanes of one program may read what others have not written yet"
)
@pytest.mark.parametrize(("algorithm", "output"), VARIANTS)
def test_one_program_takes_the_steps_of_one_word(algorithm: str, output: str, kernel: ModuleType) -> None:
    one, other = learner(algorithm, output), learner(algorithm, output)
    rng = np.random.default_rng(1)
    text = Text(rng.integers(-1, WORDS, 60).astype(np.int32), np.array([0, 25, 25, 60]))
    draws = one.sampler.draw(text, 1, 4)
    # a negative that is drawn twice for a word has moved when it is met again: so none is, but one is the word itself
    apart = (draws.rows[:, None] + torch.tensor([1, 7, 0, 11])) % WORDS
    draws = replace(draws, negatives=apart)
    kernel.learn(one.step, draws, 0.1, programs=1)
    with torch.no_grad():
        for start in range(draws.kept):
            other.step(draws, torch.tensor(start), torch.tensor(0.1))
    for mine, theirs in zip(outcome(one.step), outcome(other.step), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert not one.step.vectors[:, 20:].any()


def test_a_segment_of_which_nothing_is_left_changes_nothing(kernel: ModuleType) -> None:
    one = learner("skipgram", "negative")
    before = one.step.vectors.clone()
    kernel.learn(one.step, one.sampler.draw(Text(np.full(9, -1, np.int32), np.array([0, 9])), 1, 4), 0.1)
    assert torch.equal(one.step.vectors, before)
    assert not one.step.totals.any()
