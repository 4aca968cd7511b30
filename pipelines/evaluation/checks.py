"""Faults of meaning that simple rules find: what a translation loses or adds although every reference keeps it.

A rule judges only the lines that it can say something about. The references decide what must be kept, so that a free
translation passes. Rules with word lists are skipped for languages without one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import regex

from dragoman.model.inference.bleu import BY_LANGUAGE
from dragoman.model.languages import base_language, is_rewriting
from dragoman.model.text.excerpt import excerpt
from dragoman.model.text.loops import goes_round
from dragoman.model.text.units import UNITS
from dragoman.pipelines.evaluation import pair_rules
from dragoman.pipelines.settings import CheckName
from dragoman.pipelines.tracking.faults import Faults

NAMES: tuple[CheckName, ...] = get_args(CheckName)
SHOWN = 2  # faults of a check in the report
STORED = 10  # in the record
SHORT = 2  # words of a short line
SPELLED = 12  # numbers up to this are often written as words, so they cannot be lost
HALF_DAY = 12  # 10 p.m. is 22:00
# Words that negate. Czech, Finnish, Turkish and others negate by parts of words: they have no list.
NEGATIONS = {
    "de": r"nicht|nichts|nie|niemals|niemand\w*|nirgend\w*|kein\w*|weder|ohne|nein",
    "en": r"no|not|cannot|never|nobody|nothing|none|nowhere|neither|nor|without|\w+n['’]t",
    "es": r"no|nunca|jamás|nadie|nada|ningún|ningun[ao]s?|ni|sin|tampoco",
    "fr": r"ne|n['’]\w+|pas|jamais|rien|aucune?s?|sans|ni|non",
    "it": r"non|no|mai|niente|nulla|nessun\w*|senza|né|neanche|nemmeno|neppure",
    "nl": r"niet|niets|geen|nooit|niemand|nergens|noch|zonder|nee",
    "pl": r"nie|nigdy|nikt|nikogo|nikomu|nic|niczego|żad\w+|bez|ani",
    "pt": r"não|nunca|jamais|nada|ninguém|nenhu\w+|nem|sem|tampouco",
    "sv": r"inte|icke|ej|ingen|inget|inga|aldrig|varken|utan|nej",
}
_NUMBER_UNIT = regex.compile(rf"(?<=\p{{Nd}})\s?({UNITS}|[%‰]|°\s?[CFK]?|\p{{Sc}})(?!\w)|(\p{{Sc}})(?=\s?\p{{Nd}})")
_NAME = regex.compile(r"(?<![\p{L}\p{N}])\p{Lu}[\p{L}\p{M}\p{N}'’-]*[\p{L}\p{N}]")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")

Judge = Callable[[str, Sequence[str], str], bool | None]  # source, references, translation; None: says nothing of them


@dataclass(frozen=True)
class Check:
    """The findings of one rule."""

    lines: int = 0  # that it could judge
    faults: list[int] = field(default_factory=list)  # rows, from 0
    skipped: str = ""  # why it judged none


def run_checks(
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    hypotheses: Sequence[str],
    languages: Sequence[str],
    names: Sequence[CheckName] = NAMES,
) -> dict[CheckName, Check]:
    """Returns the findings of each rule; `references` are the one or several of each line."""
    checks: dict[CheckName, Check] = {}
    for name in names:
        judge = JUDGES[name](languages)
        if isinstance(judge, str):
            checks[name] = Check(skipped=judge)
            continue
        verdicts = [judge(*line) for line in zip(sources, references, hypotheses, strict=True)]
        faults = [row for row, verdict in enumerate(verdicts) if verdict]
        checks[name] = Check(sum(verdict is not None for verdict in verdicts), faults)
    return checks


def compare_checks(candidate: Mapping[CheckName, Check], champion: Mapping[CheckName, Check]) -> list[Faults]:
    """Returns both systems' faults under each rule that judged, with the exact sign test of the lines that differ."""
    from scipy.stats import binomtest

    pairs = []
    for name, ours in candidate.items():
        theirs = champion[name]
        if ours.skipped:
            continue
        more, fewer = len({*ours.faults} - {*theirs.faults}), len({*theirs.faults} - {*ours.faults})
        p_value = float(binomtest(more, more + fewer, 0.5, "greater").pvalue) if more + fewer else 1.0
        pairs.append(Faults(name, len(ours.faults), len(theirs.faults), p_value))
    return pairs


def checks_record(
    checks: Mapping[CheckName, Check], sources: Sequence[str], references: Sequence[Any], hypotheses: Sequence[str]
) -> dict[str, Any]:
    """Returns plain values for JSON, with the first faults of each rule."""
    record: dict[str, Any] = {}
    for name, check in checks.items():
        samples = [
            {"line": row + 1, "source": sources[row], "reference": references[row], "hypothesis": hypotheses[row]}
            for row in check.faults[:STORED]
        ]
        counts = {"lines": check.lines, "faults": len(check.faults), "samples": samples}
        record[name] = {"skipped": check.skipped} if check.skipped else counts
    return record


def checks_report(
    checks: Mapping[CheckName, Check], sources: Sequence[str], hypotheses: Sequence[str], title: str = "checks"
) -> str:
    """Returns the findings for users, with the first faults of each rule."""
    judged = [f"{name} {len(check.faults):,} of {check.lines:,}" for name, check in checks.items() if check.lines]
    skipped = [f"{name} skipped: {check.skipped}" for name, check in checks.items() if check.skipped]
    lines = [f"{title}, faults of the lines judged: {', '.join(judged) or 'none'}", *skipped]
    for name, check in checks.items():
        for row in check.faults[:SHOWN]:
            lines.append(f"  {name}, line {row + 1}: {excerpt(sources[row], 90)} -> {excerpt(hypotheses[row], 90)}")
    return "\n".join(lines)


def _negation(languages: Sequence[str]) -> Judge | str:
    codes = [base_language(code) for code in languages]
    if missing := [code for code in codes if code not in NEGATIONS]:
        return f"no list of negations for {', '.join(missing)}"
    source_words, target_words = (regex.compile(rf"(?<!\w)(?:{NEGATIONS[code]})(?!\w)", regex.I) for code in codes)

    def judge(source: str, references: Sequence[str], text: str) -> bool | None:
        is_question = bool(source_words.search(source))
        kept = {bool(target_words.search(reference)) for reference in references}
        return None if kept != {is_question} or not text.strip() else bool(target_words.search(text)) != is_question

    return judge


def _numbers(source: str, references: Sequence[str], text: str) -> bool | None:
    # 0 is left out: 22:00 is 10 p.m.
    in_source, written, *kept = ({*pair_rules.numbers_in(side)} - {0} for side in (source, text, *references))
    expected = {number for number in in_source.intersection(*kept) if number > SPELLED}
    accepted = in_source.union(*kept)
    if not accepted and not written:
        return None

    def near(numbers: set[int]) -> set[int]:
        clocks = {number for number in numbers if number <= 2 * HALF_DAY}
        return numbers | {number + HALF_DAY for number in clocks} | {number - HALF_DAY for number in clocks}

    return bool(expected - near(written) or written - near(accepted))


def _units(source: str, references: Sequence[str], text: str) -> bool | None:
    in_source, in_text = _units_in(source), _units_in(text)
    kept = [_units_in(reference) for reference in references]
    if not in_source and not in_text:
        return None
    return bool(in_source.intersection(*kept) - in_text or in_text - in_source.union(*kept))


def _units_in(text: str) -> set[str]:
    return {"".join((match[1] or match[2]).split()) for match in _NUMBER_UNIT.finditer(text)}


def _names(source: str, references: Sequence[str], text: str) -> bool | None:
    names = {
        match.group()
        for match in _NAME.finditer(source)
        if len(match.group()) > 3 or (match.start() and len(match.group()) > 2) or match.group().isupper()
    }
    names = {name for name in names if all(_has_name(reference, name, 0) for reference in references)}
    return not all(_has_name(text, name, regex.I) for name in names) if names else None


def _has_name(text: str, name: str, flags: int) -> bool:
    """Returns True if a word of the text begins with the name: endings of cases follow it."""
    return bool(regex.search(rf"(?<![\p{{L}}\p{{N}}]){regex.escape(name)}", text, flags))


def _short(languages: Sequence[str]) -> Judge | str:
    if unspaced := [code for code in languages if base_language(code) in BY_LANGUAGE]:
        return f"{', '.join(unspaced)} writes no blanks between words"

    def judge(source: str, references: Sequence[str], text: str) -> bool | None:
        words = [[word.casefold() for word in _WORD.findall(side)] for side in (source, *references, text)]
        *others, own_words = words
        if not 0 < len(others[0]) <= SHORT:
            return None
        again = len(own_words) > len(set(own_words)) and all(len(other) == len(set(other)) for other in others)
        return again or len(own_words) > 2 * max(map(len, others)) + 1

    return judge


def _untranslated(languages: Sequence[str]) -> Judge | str:
    if is_rewriting(languages):
        return "both sides are of one language"

    def judge(source: str, references: Sequence[str], text: str) -> bool | None:
        if not any(letter.isalpha() for letter in source) or any(
            _copies(source, reference) for reference in references
        ):
            return None
        return _copies(source, text)

    return judge


def _copies(source: str, text: str) -> bool:
    return source.casefold().strip() == text.casefold().strip() or pair_rules.untranslated(source, text)


JUDGES: dict[CheckName, Callable[[Sequence[str]], Judge | str]] = {
    "negation": _negation,
    "numbers": lambda _: _numbers,
    "names": lambda _: _names,
    "units": lambda _: _units,
    "short": _short,
    "untranslated": _untranslated,
    "empty": lambda _: lambda source, references, text: not text.strip() if source.strip() else None,
    "repeated": lambda _: lambda source, references, text: goes_round(text, source) if text.strip() else None,
}
