"""The section `service.idle`: when a GPU that a job holds counts as idle."""

from dataclasses import dataclass
from typing import Annotated

from dragoman.model.ranges import Range, Share


@dataclass
class IdleConfig:
    """A GPU idles if in every sample of these minutes it was at work for less than this share of the time."""

    share: Share = 0.05  # 0: none ever idles; counts for attempts that start from now on
    minutes: Annotated[float, Range(1, 1440)] = 15.0
