import json
from pathlib import Path

import pytest

from dragoman.pipelines.comparison.measures import speed, training_record


def line(step: int, tokens: int, seconds: float) -> dict[str, float]:
    return {"step": step, "nll": 2.0, "tokens": tokens, "seconds": seconds}


def test_pauses_and_restarts_do_not_count_as_training_time() -> None:
    steps = [line(1, 100, 1.0), line(2, 100, 2.0), line(3, 300, 3.0), line(4, 100, 60.0), line(6, 100, 61.0)]
    assert speed(steps) == pytest.approx((100 + 300) / 2.0)
    assert speed(steps[:1]) == 0.0


def test_a_record_knows_tokens_time_and_validation(tmp_path: Path) -> None:
    assert training_record(tmp_path) is None
    lines = [line(1, 100, 30.0), line(2, 50, 60.0), {"step": 2, "valid_loss": 3.5, "seconds": 90.0}]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    record = training_record(tmp_path)
    assert record is not None
    assert (record.tokens, record.minutes) == (150, 1.5)
    assert record.validation == [(150, 1.5, 3.5)]
