"""Which values of a configuration are a run's parameters: what it is known by, and what differs from the files of conf.

The whole configuration is the run's artifact `config.yaml`; 150 defaults beside them would hide what was set.
"""

from collections.abc import Mapping
from typing import Any

from conf.groups import choices, merge_choice, written_defaults
from pipelines.tracking import names

KNOWN_BY = (  # shown for every run, so that runs can be compared by them
    *(
        "name",
        "pair",
        "seed",
        "corpus.name",
        "tokenizer.name",
        "tokenizer.vocabulary",
        "model.name",
        "model.architecture",
    ),
    *("train.max_steps", "train.optimizer.lr", "train.precision", "loader.batch_tokens", "loader.lanes"),
)


def shown_values(config: Mapping[str, Any]) -> dict[str, str]:
    """Dotted key -> value of what is worth a parameter, in the order of the configuration."""
    defaults = _defaults(config)
    given = names.flat_texts(config)
    return {key: text for key, text in given.items() if key in KNOWN_BY or not _same(text, defaults.get(key))}


def _defaults(config: Mapping[str, Any]) -> dict[str, str]:
    """Dotted key -> what the files say, those of the choices that the sections are named after among them."""
    found = {key: str(value) for key, value in written_defaults().items()}
    for section, values in config.items():
        choice = values.get("name") if isinstance(values, Mapping) else None
        if choice in choices(section):
            found |= names.flat_texts({section: merge_choice(section, str(choice))})
    return found


def _same(text: str, default: str | None) -> bool:
    """Whether a value is the default: 1e-9 is 1e-09, and what is made of other keys is nobody's choice."""
    if default is None or text == default or "${" in default:
        return default is not None
    try:
        return float(text) == float(default)
    except ValueError:
        return False
