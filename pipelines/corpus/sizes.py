"""Settings by the number of pairs. `pipelines/settle.py` takes them where the user chose none."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Set
from typing import Any

from dragoman.model.languages import is_single

VOCABULARY, STEPS, WARMUP = "tokenizer.vocabulary", "train.max_steps", "train.optimizer.warmup_steps"
BATCH, LAYERS = "loader.batch_tokens", "model.encoder_layers"
# Between two columns in proportion (of logarithms); beyond the last they stay. How chosen: docs/notes/sizes.md.
SIZES: dict[str, list[Any]] = {
    "pairs": [200, 10000, 100000, 1000000],
    "tokenizer.vocabulary": [1000, 4000, 8000, 10000],
    BATCH: [256, 1024, 2048, 4096],
    "train.max_steps": [150, 1200, 4000, 8000],
    "train.optimizer.warmup_steps": [20, 100, 400, 2000],
    "train.evaluate_every": [25, 100, 250, 500],
    "train.checkpoint_every": [10, 50, 200, 500],
    # of model=transformer_modern alone, and not where it begins with another's weights: docs/recipe.md
    "train.optimizer.kind": ["muon", "muon", "muon", "muon"],
    "train.optimizer.lr": [0.008, 0.008, 0.008, 0.004],
    "train.optimizer.weight_decay": [0.1, 0.1, 0.1, 0.1],
    "train.optimizer.split_packed": [True, True, True, True],
    "train.optimizer.schedule": ["linear", "linear", "linear", "linear"],
    "model.dropout": [0.3, 0.1, 0.1, 0.1],
    LAYERS: [2, 2, 6, 6],
}
BY_SIZE = 0  # of the vocabulary, until the pairs are counted


def fitting(pairs: int) -> dict[str, Any]:
    """Returns dotted key -> value for a corpus of so many pairs."""
    sizes = SIZES["pairs"]
    pairs = min(max(pairs, sizes[0]), sizes[-1])
    low = min(bisect_right(sizes, pairs), len(sizes) - 1) - 1
    part = math.log(pairs / sizes[low]) / math.log(sizes[low + 1] / sizes[low])
    return {key: _between(row[low], row[low + 1], part) for key, row in SIZES.items() if key != "pairs"}


def _between(low: Any, high: Any, part: float) -> Any:
    """Returns the value at this part of the way, of numbers with two digits; of names the nearer."""
    if part in (0.0, 1.0) or low == high or isinstance(low, str):
        return low if part < 0.5 else high
    value = float(f"{low * (high / low) ** part:.2g}")
    return round(value) if isinstance(low, int) else value


def as_counted(values: Mapping[str, Any], chosen: Set[str]) -> dict[str, Any]:
    """Returns the mark `BY_SIZE` for the vocabulary of a sharding, where it is to fit the pairs."""
    of_pairs = values["corpus"]["format"] not in ("text", "labelled") and not is_single(values["pair"])
    tokenizer = values["tokenizer"]
    learned = tokenizer["type"] in ("bpe", "unigram") and not tokenizer["same_as"]
    return {VOCABULARY: BY_SIZE} if of_pairs and learned and not chosen & {VOCABULARY, "experiment"} else {}


def fitting_run(records: int, share: float) -> int:
    """Returns the records per run of text, few enough that the `share` of all runs is at least one."""
    return max(1, int(records * share))
