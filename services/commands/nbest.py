"""Moses' n-best lists: `number ||| hypothesis ||| features ||| score`, best first, the lines of a sentence together.

Features look like `Name= value value ...` (or `Name: ...`, as older versions wrote them); a name with several values
becomes several features, Name_0, Name_1 ... Score and features are optional (`number ||| hypothesis ||| score` is the
output of `format=nbest`). Columns after the score (alignments) are kept.

The weights of features are a file of readable JSON, with the data that they were tuned on.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.services.commands.lines import BAR, file_errors, from_column, to_column

KIND, FORMAT_VERSION = "rerank-weights", 2


@dataclass
class Entry:
    """One hypothesis of a list."""

    place: str  # file and line, for messages
    text: str
    features: dict[str, float] = field(default_factory=dict)
    written: str = ""  # the features as read
    score: float | None = None  # the other system's total
    rest: tuple[str, ...] = ()  # columns after the score
    ours: float | None = None  # our log-probability, if computed here

    def line(self, number: int, features: Mapping[str, float], score: float | None) -> str:
        """Returns a line of a list, with its end and with `features` after the existing ones."""
        added = " ".join(f"{name}= {value:.6f}" for name, value in features.items())
        total = [] if score is None else [f"{score:.6f}"]
        columns = [str(number), to_column(self.text), f"{self.written} {added}".strip(), *total, *self.rest]
        return f" {BAR} ".join(columns) + "\n"


@dataclass
class NBest:
    """A sentence's hypotheses, in the order of the file."""

    number: int  # of the sentence, from 0
    entries: list[Entry]


def read_nbest(lines: Iterable[str | None], name: str) -> Iterator[NBest]:
    """Yields the lists of a file's lines, one at a time."""
    current: NBest | None = None
    for position, line in enumerate(lines, 1):
        place = f"{name}, line {position}"
        number, entry = read_entry(line or "", place)
        if current is not None and number == current.number:
            current.entries.append(entry)
            continue
        if current is not None:
            if number < current.number:
                raise UserError(f"{place}: sentence {number} after sentence {current.number}: lists must be in order")
            yield current
        current = NBest(number, [entry])
    if current is not None:
        yield current


def read_entry(line: str, place: str) -> tuple[int, Entry]:
    """Returns the sentence's number and the hypothesis."""
    columns = [column.strip() for column in line.split(BAR)]
    if len(columns) < 3:
        raise UserError(
            f"{place}: {len(columns)} columns between {BAR}, not number {BAR} hypothesis {BAR} features {BAR} score "
            f"({line[:60]!r})"
        )
    if not (columns[0].isascii() and columns[0].isdigit()):
        raise UserError(f"{place}: the sentence's number is {columns[0]!r}, not a whole number from 0")
    number, text, third, rest = int(columns[0]), from_column(columns[1]), columns[2], columns[3:]
    if not rest and _is_number(third):  # number ||| hypothesis ||| score
        return number, Entry(place, text, {}, "", _number(third, "score", place))
    score = _number(rest[0], "score", place) if rest else None
    return number, Entry(place, text, read_features(third, place), third, score, tuple(rest[1:]))


def read_features(text: str, place: str) -> dict[str, float]:
    """`LM0= -12.5 TM0= -1 -2` -> {"LM0": -12.5, "TM0_0": -1.0, "TM0_1": -2.0}."""
    by_name: dict[str, list[float]] = {}
    values: list[float] | None = None
    for word in text.split():
        if word[-1] in "=:" and len(word) > 1:
            if word[:-1] in by_name:
                raise UserError(f"{place}: the feature {word[:-1]!r} is given twice")
            values = by_name[word[:-1]] = []
        elif values is None:
            raise UserError(f"{place}: features begin with {word!r}, not with a name such as LM0=")
        else:
            values.append(_number(word, f"feature {list(by_name)[-1]!r}", place))
    features: dict[str, float] = {}
    for name, numbers in by_name.items():
        if not numbers:
            raise UserError(f"{place}: the feature {name!r} has no value")
        features |= {name: numbers[0]} if len(numbers) == 1 else {f"{name}_{i}": n for i, n in enumerate(numbers)}
    return features


def _number(text: str, what: str, place: str) -> float:
    if not _is_number(text) or not math.isfinite(float(text)):
        raise UserError(f"{place}: the {what} is {text!r}, not a finite number")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Weights:
    """Feature name -> weight; the facts give their origin."""

    weights: dict[str, float]
    facts: dict[str, Any] = field(default_factory=dict)

    def score(self, features: Mapping[str, float]) -> float:
        """Returns the weighted sum; a missing feature counts as 0, like Moses' sparse ones."""
        return sum(weight * features.get(name, 0.0) for name, weight in self.weights.items())

    def save(self, path: Path) -> None:
        """Writes the file atomically."""
        record = {"kind": KIND, "format_version": FORMAT_VERSION, "weights": self.weights, **self.facts}
        with file_errors("rerank.tune", path):
            atomic_write(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def load_weights(path: str) -> Weights:
    """Loads the weights in a file."""
    try:
        with file_errors("rerank.weights", path, "read"):
            record = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as problem:
        raise UserError(f"rerank.weights: {path} is not JSON ({problem})") from None
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise UserError(f"rerank.weights: {path} is no file of weights (dragoman rerank rerank.tune={path} writes one)")
    if record.get("format_version") != FORMAT_VERSION:
        raise UserError(
            f"rerank.weights: {path} has the format version {record.get('format_version')!r}; known: {FORMAT_VERSION}"
        )
    weights = record.get("weights")
    if not isinstance(weights, dict) or not weights:
        raise UserError(f"rerank.weights: {path} holds no weights")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise UserError(f"rerank.weights: {path}: the weight of {name!r} is {weight!r}, not a finite number")
    facts = {key: value for key, value in record.items() if key not in ("kind", "format_version", "weights")}
    return Weights({name: float(weight) for name, weight in weights.items()}, facts)
