"""Sections that no run can have are refused by name."""

from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.settings import TrainConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"checkpoint_every": 0}, "train.checkpoint_every=0: must be at least 1"),
        ({"log_every": 0}, "train.log_every=0: must be at least 1"),
        ({"max_minutes": -1.0}, "train.max_minutes=-1.0: must be at least 0"),
        (
            {"final_weights": "ema"},
            "train.final_weights=ema: needs train.optimizer.ema_decay=0.999, or another above 0",
        ),
    ],
)
def test_what_no_training_can_have_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    TrainConfig().check()
    with pytest.raises(UserError, match=message):
        TrainConfig(**settings).check()
