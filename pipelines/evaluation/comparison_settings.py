"""The section `compare`."""

from dataclasses import dataclass, field
from typing import Any

from dragoman.conf import groups
from dragoman.model.names import check_name
from dragoman.model.ranges import Amount, Part, Whole, check_ranges

SHORT = {"transformer": "transformer_tiny"}  # family -> the size that suits common corpora


@dataclass
class CompareConfig:
    """The training budget of each network, and the pictures."""

    name: str = "compare-corpus-en-de"  # name of the comparison's run; its networks' runs are NAME-MODEL
    max_tokens: Whole = 8_000_000  # target tokens per model; 0: as many as train.max_steps has
    max_minutes: Amount = 30.0  # per model, evaluation included; 0: no limit
    warmup: Part = 0.1  # share of the steps; 0: train.optimizer.warmup_steps
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict)  # architecture -> keys of train.optimizer
    networks: dict[str, dict[str, Any]] = field(default_factory=dict)  # architecture -> keys of its model
    model: dict[str, Any] = field(default_factory=dict)  # keys for all networks trained here that have them
    maps: list[str] = field(default_factory=list)  # source sentences of the alignment maps; []: from the held-out set
    map_count: Whole = 3  # number of sentences from the held-out set

    def check(self) -> None:
        """Refuses invalid values by name."""
        check_ranges("compare", self)
        check_name("compare.name", self.name)


def model_file(item: str) -> str:
    """Returns the file of conf/model that an item of `models` means, or ""."""
    name = SHORT.get(item, item)
    return name if name in groups.choices("model") else ""
