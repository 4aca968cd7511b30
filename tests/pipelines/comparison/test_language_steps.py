"""Differences of language models between rows: the same records for both, p-values only with several seeds."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dragoman.pipelines.comparison.language import Bits, resample_bits
from dragoman.pipelines.comparison.seeds import Step, steps

RECORDS = 60
RNG = np.random.default_rng(5)
SIZES = RNG.integers(20, 80, RECORDS)
TEXT = SIZES * RNG.uniform(1.5, 2.5, RECORDS)  # bits of each record, hard and easy ones


def run(better: float, seed: int) -> Bits:
    """A training whose bits per character are lower by `better`, and by the luck of its seed."""
    luck = np.random.default_rng(seed).normal(0.0, 0.01)
    return (TEXT - (better + luck) * SIZES).tolist(), SIZES.tolist()


def steps_of(runs: Mapping[str, Sequence[Bits]], samples: int) -> dict[str, Step]:
    return steps(runs, "bits per character", lambda own: resample_bits(own, samples), samples)


def test_the_text_is_scored_by_character_and_its_sets_of_records_are_the_same_for_all() -> None:
    exact, drawn = resample_bits([run(0.0, 1), run(0.0, 1), run(0.2, 1)], 50)
    assert exact[0] == pytest.approx(sum(run(0.0, 1)[0]) / SIZES.sum())
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 1])
    np.testing.assert_allclose(drawn[:, 0] - drawn[:, 2], 0.2)
    assert drawn[:, 0].std() > 0.005


def test_one_seed_has_a_difference_and_no_p() -> None:
    found = steps_of({"first": [run(0.0, 1)], "second": [run(0.1, 1)]}, 50)
    assert list(found) == ["second"]
    step, corrected = found["second"]
    assert step.difference == pytest.approx(-0.1) and corrected is None


def test_a_real_difference_is_told_from_that_of_seeds() -> None:
    seeds = {"first": 0.0, "same": 0.0, "better": 0.2}
    runs = {name: [run(gain, 10 * place + n) for n in range(4)] for place, (name, gain) in enumerate(seeds.items())}
    found = steps_of(runs, 300)
    assert found["same"][0].p_value > 0.05
    step, corrected = found["better"]
    assert step.p_value < 0.001 and step.difference == pytest.approx(-0.2, abs=0.02)
    assert corrected == pytest.approx(2 * step.p_value)
    assert steps_of(runs, 1) == {}
