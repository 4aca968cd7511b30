"""The names of the rules of `corpus.clean.rules`, and which are chosen. Loads nothing large."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.model.errors import UserError, unknown
from dragoman.pipelines.corpus.clean.block import load_result
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig

# In the order of judging: a pair counts under the first that it fails.
OF_TEXT = ("script", "garbage", "repeated", "untranslated", "addresses", "markup", "numbers")
FITTED = ("wrong_side", "language", "cut_off", "uneven", "unrelated")
NEAR = "near_duplicate"
SCORED = "low_score"  # judged where corpus.clean.min_score is above 0
RULES = (*OF_TEXT, *FITTED)  # of a pair by itself
JUDGED = (*RULES, SCORED)  # the bits of `failed`
PRESETS: dict[str, tuple[str, ...]] = {
    "none": (),
    "web": ("script", "garbage", "repeated", "untranslated", "wrong_side", "language", "unrelated"),
    "strict": (*RULES, NEAR),
}
FOLDER = "judged"  # of the scratch folder: what each block fails
BETWEEN_LANGUAGES = ("untranslated", "wrong_side")  # say nothing where both sides are of one language

Failed = npt.NDArray[np.uint16]


def chosen_rules(config: CleanConfig, key: str = "corpus.clean") -> tuple[str, ...]:
    """Returns the rules that `key`.rules names, one preset or rules, and `low_score` if there is a least score."""
    names = [config.rules] if isinstance(config.rules, str) else config.rules
    scored = (SCORED,) if config.min_score > 0 else ()
    if len(names) == 1 and names[0] in PRESETS:
        return (*PRESETS[names[0]], *scored)
    for name in names:
        if name not in (*RULES, NEAR):
            raise unknown(f"{key}.rules", name, (*PRESETS, *RULES, NEAR))
    return (*(rule for rule in (*RULES, NEAR) if rule in names), *scored)


def check_rules(corpus: CorpusConfig, pairs: bool) -> None:
    """Raises UserError for rules that do not exist, that are given for records which are no `pairs`, or that need
    scores where there are none, and for scores that nothing needs."""
    clean = corpus.clean
    each = {f"corpus.parts[{number}].clean": part.clean.over(clean) for number, part in enumerate(corpus.parts)}
    each = each or {"corpus.clean": clean}
    chosen = {key: chosen_rules(settings, key) for key, settings in each.items()}
    if (any(chosen.values()) or clean.scores) and not pairs:
        raise UserError(
            f"corpus.clean.rules={clean.rules}: rules judge pairs of texts, and "
            f"corpus.format={corpus.format} has none; leave the key out"
        )
    if len(clean.scores) not in (0, 2):
        raise UserError(
            f"corpus.clean.scores={clean.scores}: two models are needed, one of each direction: [FORWARD, BACKWARD]"
        )
    for key, rules in chosen.items():
        if SCORED in rules and not clean.scores:
            raise UserError(
                f"{key}.min_score={each[key].min_score:g}: needs the scores of two models: "
                f"corpus.clean.scores=[FORWARD, BACKWARD]"
            )
    if clean.scores and not any({SCORED, NEAR} & set(rules) for rules in chosen.values()):
        raise UserError(
            f"corpus.clean.scores={clean.scores}: nothing uses the scores; choices: corpus.clean.min_score above 0, or "
            f"the rule {NEAR}, which then keeps the best pair"
        )


def load_failed(folder: Path, number: int, pairs: int) -> Failed:
    """Returns (n,): the bits of the rules that each pair of a block fails; none if it was not judged."""
    return load_result(folder, number, pairs, np.uint16)
