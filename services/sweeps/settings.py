"""The section `sweep`: what a search tries, how often, and by what it judges."""

from dataclasses import dataclass
from typing import Any, Literal

from model.errors import UserError
from services.jobs.job_client import JobsConfig


@dataclass
class SweepConfig:
    """How many trials, who proposes them, and when a loser ends. Names as Optuna has them."""

    trials: int = 20
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    pruner: Literal["asha", "none"] = "asha"
    reduction_factor: int = 3  # asha: of those that come as far, one in so many goes on
    min_resource: int = 1  # asha: validations that every trial gets
    parallel: int = 2  # jobs that wait or run at once
    metric: str = "valid_loss"  # a curve of the run's journal; a trial counts with its best value
    direction: Literal["minimize", "maximize"] = "minimize"
    promote: bool = False  # register the best trial at the end, and promote it where the gate lets it pass

    def check(self) -> None:
        """Refuse numbers that cannot be.

        Raises:
            UserError: names the key and the value.
        """
        for name, least in {"trials": 1, "reduction_factor": 2, "min_resource": 1, "parallel": 1}.items():
            if getattr(self, name) < least:
                raise UserError(f"sweep.{name}: {getattr(self, name)} must be at least {least}")


@dataclass
class SweepRoot:
    """The sections that a sweep reads; all others are its trials'."""

    sweep: SweepConfig
    jobs: JobsConfig
    tracking: dict[str, Any]
    paths: dict[str, Any]
    name: str
    seed: int
