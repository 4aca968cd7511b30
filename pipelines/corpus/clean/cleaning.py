"""Normalisation, and the rules that judge each pair by itself. Each rule has a name, and its effects are counted.

Rules that need the whole corpus (duplicates, leakage, splits) are in `plan`.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq

import numpy as np
import numpy.typing as npt

from dragoman.model.text.normalise import has_invisible, has_loose_space, normalise_lines
from dragoman.pipelines.corpus.settings import CleanConfig

Mask = npt.NDArray[np.bool_]

# Short sides have extreme ratios ("Go." - "Geht schon!"): this many characters are added to both before dividing.
RATIO_SLACK = 10
EXAMPLES = 5  # of a rule per block, for the record of the cleaning


@dataclass
class Cleaned:
    """All lines of the block with both sides normalised; `kept` marks those that passed."""

    source: list[str]
    target: list[str]
    kept: Mask  # (n,)
    dropped: Counter[str]  # rule -> pairs
    changed: Counter[str]  # normalisation -> lines that it changed, on either side
    examples: dict[str, list[int]]  # rule -> the first lines that it dropped


def clean(
    source: Sequence[str], target: Sequence[str], bad: dict[int, str], config: CleanConfig, held_out: bool
) -> Cleaned:
    """Normalises all lines and judges them, in the order blank, too_long, length_ratio, copy.

    `bad` holds unreadable lines with the reason. A given test set must stay complete: of held-out lines only unreadable
    ones and those with a blank side are dropped.
    """
    changed: Counter[str] = Counter()
    left = normalise_side(source, config.form, changed)
    right = normalise_side(target, config.form, changed)
    kept = np.ones(len(left), bool)
    dropped: Counter[str] = Counter(bad.values())
    kept[list(bad)] = False
    examples: dict[str, list[int]] = {}

    def drop(rule: str, failed: Mask) -> None:
        """Drops and counts the kept pairs that fail `rule`."""
        failed &= kept
        if number := int(failed.sum()):
            dropped[rule] += number
            examples[rule] = np.flatnonzero(failed)[:EXAMPLES].tolist()
            kept[failed] = False

    lengths = np.array([list(map(len, left)), list(map(len, right))], np.int64)  # (2, n) characters
    drop("blank", (lengths == 0).any(0))
    if not held_out:
        drop("too_long", _too_long(left, right, lengths, config))
        drop("length_ratio", _uneven(left, right, lengths, config.max_ratio))
        if config.copies:
            drop("copy", np.fromiter(map(eq, left, right), bool, len(left)))
    return Cleaned(left, right, kept, dropped, changed, examples)


def normalise_side(lines: Sequence[str], form: str, changed: Counter[str]) -> list[str]:
    """Returns every line as tokenizers read it; `changed` counts the lines that differed before."""
    text = "\n".join(lines)
    clean_text = normalise_lines(text, form)
    if clean_text == text:
        return list(lines)
    result = clean_text.split("\n")
    touched = [raw for raw, line in zip(lines, result, strict=True) if raw != line]
    changed["control"] += sum(map(has_invisible, touched))
    changed["unicode"] += sum(not unicodedata.is_normalized(form, raw) for raw in touched)  # type: ignore[arg-type]  # the stubs want a literal
    changed["white_space"] += sum(map(has_loose_space, touched))
    return result


def _too_long(left: Sequence[str], right: Sequence[str], lengths: npt.NDArray[np.int64], config: CleanConfig) -> Mask:
    failed: Mask = np.zeros(lengths.shape[1], bool)
    if config.max_chars:
        failed |= (lengths > config.max_chars).any(0)
    if config.max_words:
        # n words need 2n - 1 characters, so only longer lines are counted
        for side, row in ((left, lengths[0]), (right, lengths[1])):
            for number in np.flatnonzero(row > 2 * config.max_words).tolist():
                if side[number].count(" ") >= config.max_words:
                    failed[number] = True
    return failed


def _uneven(left: Sequence[str], right: Sequence[str], lengths: npt.NDArray[np.int64], limit: float) -> Mask:
    """Returns the pairs whose sides differ too much both in characters and in UTF-8 bytes.

    A Chinese or Japanese sentence has few characters and many bytes for its meaning, a Greek or Thai one the reverse: a
    pair passes if either measure is even.
    """
    if not limit:
        return np.zeros(lengths.shape[1], bool)
    failed: Mask = _ratio(lengths) > limit
    for number in np.flatnonzero(failed).tolist():
        sizes = np.array([[len(left[number].encode())], [len(right[number].encode())]])
        failed[number] = _ratio(sizes)[0] > limit
    return failed


def _ratio(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    longer, shorter = lengths.max(0) + RATIO_SLACK, lengths.min(0) + RATIO_SLACK
    ratio: npt.NDArray[np.float64] = longer / shorter
    return ratio
