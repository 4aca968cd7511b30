"""Normalisation, and the rules that judge each pair by itself. Each rule has a name, and its effects are counted.

Rules that need the whole corpus (duplicates, leakage, splits) are in `plan`.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import eq

import numpy as np
import numpy.typing as npt
import regex

from dragoman.model.text.normalise import has_invisible, has_loose_space, normalise_lines
from dragoman.pipelines.corpus.clean.identifier import most_likely
from dragoman.pipelines.corpus.settings import CleanConfig

Mask = npt.NDArray[np.bool_]

# Short sides have extreme ratios ("Go." - "Geht schon!"): this many characters are added to both before dividing.
RATIO_SLACK = 10
OWN_SCRIPT = 0.5  # least share of a side's letters
TELLING = 20  # letters of a text whose language can be told
CERTAIN = 20.0  # how much more probable another language must be
# The scripts of languages that are written in several.
SCRIPTS = {"Hans": ("Hani",), "Hant": ("Hani",), "Jpan": ("Hani", "Hira", "Kana"), "Kore": ("Hang", "Hani")}
_LETTER = regex.compile(r"\p{L}")


@dataclass
class Cleaned:
    """All lines of the block with both sides normalised; `kept` marks those that passed."""

    source: list[str]
    target: list[str]
    kept: Mask  # (n,)
    dropped: Counter[str]  # rule -> pairs
    changed: Counter[str]  # normalisation -> lines that it changed, on either side


def clean(
    source: Sequence[str],
    target: Sequence[str],
    bad: dict[int, str],
    config: CleanConfig,
    held_out: bool,
    languages: Sequence[str] = (),
) -> Cleaned:
    """Normalises all lines and judges them, in the order blank, too_long, length_ratio, copy, script, language.

    `bad` holds unreadable lines with the reason. A given test set must stay complete: of held-out lines only unreadable
    ones and those with a blank side are dropped. `languages`: of the two sides, for the last two rules.
    """
    changed: Counter[str] = Counter()
    left = normalise_side(source, config.form, changed)
    right = normalise_side(target, config.form, changed)
    kept = np.ones(len(left), bool)
    dropped: Counter[str] = Counter(bad.values())
    kept[list(bad)] = False

    def drop(rule: str, failed: Mask) -> None:
        """Drops and counts the kept pairs that fail `rule`."""
        failed &= kept
        if number := int(failed.sum()):
            dropped[rule] += number
            kept[failed] = False

    lengths = np.array([list(map(len, left)), list(map(len, right))], np.int64)  # (2, n) characters
    drop("blank", (lengths == 0).any(0))
    if not held_out:
        drop("too_long", _too_long(left, right, lengths, config))
        drop("length_ratio", _uneven(left, right, lengths, config.max_ratio))
        if config.copies:
            drop("copy", np.fromiter(map(eq, left, right), bool, len(left)))
        for rule, chosen, fails in (
            ("script", config.script, in_other_script),
            ("language", config.language, in_other_language),
        ):
            if chosen:
                failed = np.zeros(len(left), bool)
                for number in np.flatnonzero(kept).tolist():
                    failed[number] = any(map(fails, (left[number], right[number]), languages))
                drop(rule, failed)
    return Cleaned(left, right, kept, dropped, changed)


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


def in_other_script(text: str, language: str) -> bool:
    """Returns True if less than half of the letters are in the usual script of the language."""
    letters = _LETTER.findall(text)
    return len(_script(language).findall(text)) < OWN_SCRIPT * len(letters)


@cache
def _script(language: str) -> regex.Pattern[str]:
    """Returns the pattern of a letter in the usual script of a language, by Unicode's Likely Subtags."""
    import langcodes

    script = langcodes.Language.get(language).maximize().script or "Latn"
    names = "".join(rf"\p{{Script={name}}}" for name in SCRIPTS.get(script, (script,)))
    return regex.compile(rf"[[{names}]&&\p{{L}}]", regex.V1)


def in_other_language(text: str, language: str) -> bool:
    """Returns True if another language is `CERTAIN` times as probable; a short text passes."""
    if sum(map(str.isalpha, text)) < TELLING:
        return False
    own, other = most_likely(text, language)
    return own is not None and other >= CERTAIN * own


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
