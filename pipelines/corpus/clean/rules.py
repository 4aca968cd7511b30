"""The names of the rules of `corpus.clean.rules`, and which are chosen. Loads nothing large."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from model.errors import UserError, unknown
from pipelines.corpus.settings import CleanConfig, CorpusConfig

# In the order of judging: a pair counts under the first that it fails.
OF_TEXT = ("script", "garbage", "repeated", "untranslated", "addresses", "markup", "numbers")
FITTED = ("wrong_side", "language", "cut_off", "uneven", "unrelated")
NEAR = "near_duplicate"
RULES = (*OF_TEXT, *FITTED)  # of a pair by itself; the bits of `failed`
PRESETS: dict[str, tuple[str, ...]] = {
    "none": (),
    "web": ("script", "garbage", "repeated", "untranslated", "wrong_side", "language", "unrelated"),
    "strict": (*RULES, NEAR),
}
FOLDER = "judged"  # of the scratch folder: what each block fails
BETWEEN_LANGUAGES = ("untranslated", "wrong_side")  # say nothing where both sides are of one language

Failed = npt.NDArray[np.uint16]


def chosen_rules(config: CleanConfig) -> tuple[str, ...]:
    """Returns the rules that `corpus.clean.rules` names: one preset, or rules.

    Raises:
        UserError: a name that is neither; with the choices.
    """
    given = [config.rules] if isinstance(config.rules, str) else config.rules
    if len(given) == 1 and given[0] in PRESETS:
        return PRESETS[given[0]]
    for name in given:
        if name not in (*RULES, NEAR):
            raise unknown("corpus.clean.rules", name, (*PRESETS, *RULES, NEAR))
    return tuple(rule for rule in (*RULES, NEAR) if rule in given)


def check_rules(corpus: CorpusConfig, pairs: bool) -> None:
    """Raises UserError for rules that do not exist, or that are given for records which are no `pairs`."""
    if chosen_rules(corpus.clean) and not pairs:
        raise UserError(
            f"corpus.clean.rules={corpus.clean.rules}: rules judge pairs of texts, and "
            f"corpus.format={corpus.format} has none; leave the key out"
        )
    if chosen_rules(corpus.clean) and corpus.parts:
        raise UserError(f"corpus.clean.rules={corpus.clean.rules}: not on a mix; clean each part before it is mixed")


def load_failed(folder: Path, number: int, pairs: int) -> Failed:
    """Returns (n,): the bits of the rules that each pair of a block fails; none if it was not judged."""
    try:
        failed: Failed = np.load(folder / f"{number:06d}.npy", allow_pickle=False)
    except FileNotFoundError:
        return np.zeros(pairs, np.uint16)
    return failed
