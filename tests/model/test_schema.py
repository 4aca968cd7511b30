"""Plain values become typed objects or a message that names the key."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from dragoman.model.errors import UserError
from dragoman.model.schema import build


@dataclass
class Inner:
    rate: float = 0.1


@dataclass
class Outer:
    steps: int
    kind: Literal["adam", "sgd"] = "adam"
    names: list[str] = field(default_factory=list)
    inner: Inner = field(default_factory=Inner)
    limit: float | Literal["auto"] | None = None


def test_values_are_converted_and_defaults_kept() -> None:
    built = build(Outer, {"steps": 3, "names": ["a"], "inner": {"rate": 1}, "limit": "auto"}, "train")
    assert built == Outer(3, "adam", ["a"], Inner(1.0), "auto")
    assert isinstance(built.inner.rate, float)


def test_scientific_notation_that_yaml_reads_as_text_is_a_number() -> None:
    assert build(Inner, {"rate": "1e-3"}, "x").rate == 0.001


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 1, "step": 2}, "train: unknown key: 'step' is not known. Did you mean 'steps'"),
        ({"steps": 1, "inner": {"rat": 2}}, "train.inner: unknown key: 'rat'"),
        ({"steps": 1, "kind": "adm"}, "train.kind: 'adm' is not known. Did you mean 'adam'"),
        ({"steps": "many"}, "train.steps: expected a whole number, got 'many'"),
        ({"steps": True}, "train.steps: expected a whole number, got True"),
        ({"steps": 1, "inner": 3}, "train.inner: expected a section of keys, got 3"),
        ({"steps": 1, "names": "a"}, "train.names: expected a list, such as [a], got 'a'"),
        ({}, "train.steps: missing"),
    ],
)
def test_mistakes_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        build(Outer, values, "train")
    assert message in str(caught.value)
