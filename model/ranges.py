"""The allowed range of a numeric setting, as part of its type: `lr: Positive`.

`model/schema.py` refuses any other value by name; the job service's form shows the range.
"""

import dataclasses
import math
import types
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from dragoman.model.errors import UserError

LARGEST = 2**63 - 1  # that a signed number of 64 bits holds


@dataclass(frozen=True)
class Range:
    """The range from `least` to `most`, never NaN and never infinite; `above` and `below` exclude the bound itself."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    below: bool = False

    def __str__(self) -> str:
        """Returns the range as a message says it: "above 0 and at most 1"."""
        parts = []
        if self.least > -math.inf:
            parts.append(f"{'above' if self.above else 'at least'} {_written(self.least)}")
        if self.most < math.inf:
            word = f"{'below' if self.below else 'at most'} {_written(self.most)}"
            parts.append("of at most 63 bits" if self.most == LARGEST else word)
        return " and ".join(parts) or "a finite number"

    def holds(self, value: float) -> bool:
        """Returns True if `value` is in the range."""
        high = self.least < value if self.above else self.least <= value
        low = value < self.most if self.below else value <= self.most
        return math.isfinite(value) and high and low


class OutOfRangeError(UserError):
    """A number of the right type outside its setting's range."""


def _written(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:.15g}"


Count = Annotated[int, Range(1)]
Whole = Annotated[int, Range(0)]
TwoOrMore = Annotated[int, Range(2)]
Seed = Annotated[int, Range(0, LARGEST)]
Port = Annotated[int, Range(0, 65_535)]
Finite = Annotated[float, Range()]
Positive = Annotated[float, Range(0, above=True)]
Amount = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
ShareAboveZero = Annotated[float, Range(0, 1, above=True)]
Part = Annotated[float, Range(0, 1, below=True)]
Probability = Annotated[float, Range(0, 1, above=True, below=True)]
Interval = Annotated[float, Range(0.1)]  # seconds between two checks, or a timeout


def check_range(bounds: Range, value: float, where: str) -> None:
    """Refuses a value outside its range."""
    if not bounds.holds(value):
        finite = "" if math.isfinite(value) or bounds == Range() else "a finite number, "
        raise OutOfRangeError(f"{where}={value}: must be {finite}{bounds}")


def check_ranges(section: str, config: Any) -> None:
    """Refuses numbers out of their ranges in a dataclass made in code, which `model/schema.py` has not checked."""
    schema: Any = type(config)
    for name, bounds in ranges_of(schema):
        value = getattr(config, name)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
            if isinstance(item, int | float):
                check_range(bounds, item, f"{section}.{name}")
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            check_ranges(f"{section}.{field.name}", value)


@cache  # the endpoint checks each request's settings
def ranges_of(schema: type) -> tuple[tuple[str, Range], ...]:
    """Returns the numeric fields of a dataclass with their ranges; sections within it are left out."""
    hints = get_type_hints(schema, include_extras=True).items()
    return tuple((name, bounds) for name, hint in hints if (bounds := range_in(hint)) is not None)


def range_in(hint: Any) -> Range | None:
    """Returns the range in an annotation: of the number itself, a union's member, or the items of a list or section."""
    if get_origin(hint) is Annotated:
        return next((extra for extra in hint.__metadata__ if isinstance(extra, Range)), None)
    if get_origin(hint) in (Union, types.UnionType, list, dict):
        return next((bounds for argument in get_args(hint) if (bounds := range_in(argument)) is not None), None)
    return None
