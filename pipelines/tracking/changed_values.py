"""Selects the configuration values that become a run's parameters: identifying ones, and those that differ from conf/.

The whole configuration is the run's artifact `config.yaml`; 150 defaults among the parameters would hide the settings.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.conf.groups import choices, merge_choice, written_defaults
from dragoman.pipelines.tracking import names

KNOWN_BY = (  # shown for every run, to compare runs
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
    """Returns dotted key -> value of what is worth a parameter, in the order of the configuration."""
    defaults = _defaults(config)
    given = names.flat_texts(config)
    return {key: text for key, text in given.items() if key in KNOWN_BY or not _same(text, defaults.get(key))}


def _defaults(config: Mapping[str, Any]) -> dict[str, str]:
    """Returns dotted key -> the files' values, with those of the choices that the sections are named after."""
    found = {key: str(value) for key, value in written_defaults().items()}
    for section, values in config.items():
        choice = values.get("name") if isinstance(values, Mapping) else None
        if choice in choices(section):
            found |= names.flat_texts({section: merge_choice(section, str(choice))})
    return found


def _same(text: str, default: str | None) -> bool:
    """Returns True if a value is the default: 1e-9 is 1e-09, and a value made of other keys counts as one."""
    if default is None or text == default or "${" in default:
        return default is not None
    try:
        return float(text) == float(default)
    except ValueError:
        return False
