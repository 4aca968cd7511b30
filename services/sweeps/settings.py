"""The section `sweep`: the settings to try, the number of trials, and the metric."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dragoman.model.ranges import Count, Seed, TwoOrMore, check_ranges
from dragoman.services.jobs.settings import Root


@dataclass
class SweepConfig:
    """The trials, their sampler and their pruner. Names follow Optuna's."""

    trials: Count = 20
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    pruner: Literal["asha", "none"] = "asha"
    reduction_factor: TwoOrMore = 3  # asha: one in this many trials continues after each rung
    min_resource: Count = 1  # asha: validations that every trial gets
    parallel: Count = 2  # jobs that wait or run at once
    metric: str = "valid_loss"  # a curve of the run's journal; a trial counts with its best value
    direction: Literal["minimize", "maximize"] = "minimize"
    promote: bool = False  # register the best trial at the end, and promote it if it passes the gate

    def check(self) -> None:
        """Refuses invalid numbers."""
        check_ranges("sweep", self)


@dataclass
class SweepRoot(Root):
    """The sections that a sweep reads; all others are its trials'."""

    FILE: ClassVar = "sweep"

    sweep: SweepConfig
    tracking: dict[str, Any]
    name: str
    seed: Seed
