"""The search space of a sweep: overrides in Hydra's sweep syntax, as Optuna's distributions.

choice(a,b)  range(1,8,2)  interval(0.1,0.5)  tag(log, interval(1e-5,1e-2))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, RangeSweep
from hydra.errors import HydraException
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from dragoman.model.errors import UserError


@dataclass(frozen=True)
class Space:
    """`fixed` are the words of every trial; `varied` maps each key to its distribution."""

    fixed: tuple[str, ...]
    varied: Mapping[str, BaseDistribution]

    def words(self, values: Mapping[str, Any]) -> list[str]:
        """Returns the overrides of one trial."""
        return [*self.fixed, *(f"{key}={value}" for key, value in values.items())]

    def example(self) -> list[str]:
        """Returns the overrides of an example trial."""
        return self.words({key: _least(distribution) for key, distribution in self.varied.items()})

    def grid(self) -> dict[str, list[Any]]:
        """Returns every value of every key."""
        return {key: _values(key, distribution) for key, distribution in self.varied.items()}


def read_space(words: Sequence[str]) -> Space:
    """Splits a trial's overrides into fixed and varied ones."""
    space = read_words(words)
    if not space.varied:
        raise UserError(
            "nothing varies: give at least one key as choice(a,b), range(1,8,2), interval(0.1,0.5) or "
            "tag(log,interval(1e-5,1e-2)), in quotation marks for the shell"
        )
    return space


def read_words(words: Sequence[str]) -> Space:
    """Splits a trial's overrides likewise; nothing needs to vary."""
    parser = OverridesParser.create()
    fixed: list[str] = []
    varied: dict[str, BaseDistribution] = {}
    for word in words:
        try:
            override = parser.parse_override(word)
        except HydraException as problem:
            raise UserError(f"{word}: {str(problem).splitlines()[0]}") from None
        if not override.is_sweep_override():
            fixed.append(word)
            continue
        key = override.get_key_element()
        if key in varied:
            raise UserError(f"{word}: {key} is varied twice")
        sweep: Any = override.value()
        if isinstance(sweep, IntervalSweep):
            varied[key] = _interval(word, sweep)
        elif isinstance(sweep, RangeSweep):
            varied[key] = _range(word, sweep)
        else:
            varied[key] = CategoricalDistribution(list(override.sweep_string_iterator()))
    return Space(tuple(fixed), varied)


def _interval(word: str, sweep: IntervalSweep) -> BaseDistribution:
    low, high, log = float(sweep.start or 0), float(sweep.end or 0), "log" in sweep.tags
    if not low < high:
        raise UserError(f"{word}: an interval goes from a smaller to a larger number")
    if log and low <= 0:
        raise UserError(f"{word}: an interval of orders of magnitude begins above 0")
    return FloatDistribution(low, high, log=log)


def _range(word: str, sweep: RangeSweep) -> BaseDistribution:
    start, stop, step = sweep.start or 0, sweep.stop, sweep.step
    whole = all(float(number).is_integer() for number in (start, step) if number is not None)
    if stop is None or step <= 0 or not start < stop:
        raise UserError(f"{word}: a range goes up to a number that it leaves out, in steps above 0")
    count = int(-(-(stop - start) // step))
    if whole:
        return IntDistribution(int(start), int(start) + (count - 1) * int(step), step=int(step))
    return CategoricalDistribution([f"{start + place * step:.10g}" for place in range(count)])


def _values(key: str, distribution: BaseDistribution) -> list[Any]:
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, IntDistribution):
        return list(range(distribution.low, distribution.high + 1, distribution.step))
    raise UserError(
        f"{key}: sweep.sampler=grid wants choice(...) or range(...): an interval has infinitely many values"
    )


def _least(distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[0]
    return distribution.low  # type: ignore[attr-defined]  # a number's
