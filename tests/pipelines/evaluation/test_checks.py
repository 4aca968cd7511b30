"""Each rule on lines that a person would call a fault, and on free translations that are none."""

from collections.abc import Sequence

import pytest

from dragoman.pipelines.evaluation.checks import NAMES, checks_record, checks_report, compare_checks, run_checks
from dragoman.pipelines.settings import CheckName

Case = tuple[CheckName, str, str, str, bool | None]
CASES: list[Case] = [  # check, source, reference, translation, verdict (None: says nothing)
    ("negation", "He does not sleep.", "Er schläft nicht.", "Er schläft.", True),
    ("negation", "He doesn’t sleep.", "Er schläft nicht.", "Er schläft keine Minute.", False),
    ("negation", "He sleeps.", "Er schläft.", "Er schläft nie.", True),
    ("negation", "Only a few came.", "Nicht viele kamen.", "Wenige kamen.", None),
    ("negation", "He knows nothing.", "Er weiß nichts.", "", None),
    ("numbers", "It took 27 days.", "Es dauerte 27 Tage.", "Es dauerte 72 Tage.", True),
    ("numbers", "It took 27 days.", "Es dauerte 27 Tage.", "Es dauerte lange.", True),
    ("numbers", "In 5 days.", "In 5 Tagen.", "In fünf Tagen.", False),
    ("numbers", "At 10 p.m.", "Um 22 Uhr.", "Um 22:00 Uhr.", False),
    ("numbers", "1,000 people", "1.000 Menschen", "1 000 Menschen", False),
    ("numbers", "A dozen people", "Ein Dutzend Leute", "Viele Leute", None),
    ("numbers", "A dozen people", "Ein Dutzend Leute", "13 Leute", True),
    ("names", "Yesterday Maria met Tom.", "Gestern traf Maria Tom.", "Gestern traf Maria ihn.", True),
    ("names", "Yesterday I met Maria.", "Gestern traf ich Maria.", "Marias Bruder traf ich.", False),
    ("names", "I live in Munich.", "Ich wohne in München.", "Ich wohne dort.", None),
    ("units", "It weighs 5 kg.", "Es wiegt 5 kg.", "Es wiegt 5 g.", True),
    ("units", "It weighs 5 kg.", "Es wiegt fünf Kilo.", "Es wiegt 5 Kilogramm.", False),
    ("units", "It costs €5.", "Es kostet 5 €.", "Es kostet 5 $.", True),
    ("units", "It is 20 °C.", "Es sind 20°C.", "Es sind 20 °C.", False),
    ("units", "It is warm.", "Es ist warm.", "Es ist heiß.", None),
    ("short", "dog", "Hund", "Ein Hund Hund", True),
    ("short", "dog", "Hund", "Der Hund läuft durch den Park.", True),
    ("short", "Good morning!", "Guten Morgen!", "Schönen guten Morgen!", False),
    ("short", "The dog runs.", "Der Hund läuft.", "Hund Hund Hund", None),
    ("untranslated", "The old dog runs.", "Der alte Hund läuft.", "The old dog runs.", True),
    ("untranslated", "dog", "Hund", "dog", True),
    ("untranslated", "Bon appetit to all!", "Bon appetit to all!", "Bon appetit to all!", None),
    ("empty", "dog", "Hund", " ", True),
    ("empty", "", "", "", None),
    ("repeated", "He sees the dog.", "Er sieht den Hund.", "Er sieht sieht sieht sieht den Hund.", True),
    ("repeated", "No, no, no, no!", "Nein, nein, nein, nein!", "Nein, nein, nein, nein!", False),
]


def verdict(check: CheckName, source: str, references: Sequence[str], text: str, pair: str = "en-de") -> bool | None:
    found = run_checks([source], [tuple(references)], [text], pair.split("-"), [check])[check]
    return bool(found.faults) if found.lines else None


@pytest.mark.parametrize(("check", "source", "reference", "text", "expected"), CASES)
def test_a_rule_finds_its_faults_and_lets_free_translations_pass(
    check: CheckName, source: str, reference: str, text: str, expected: bool | None
) -> None:
    assert verdict(check, source, [reference], text) is expected


def test_what_one_reference_leaves_out_may_be_left_out() -> None:
    assert verdict("numbers", "In 1999.", ["Im Jahr 1999.", "Im letzten Jahr."], "Damals.") is False
    assert verdict("names", "I saw Tom there.", ["Ich sah Tom dort.", "Ich sah ihn dort."], "Ich sah ihn.") is None


@pytest.mark.parametrize(
    ("pair", "source", "kept", "lost"),
    [
        ("en-fr", "He never sleeps.", "Il ne dort jamais.", "Il dort toujours."),
        ("fr-en", "Il n'a rien vu.", "He saw nothing.", "He saw it."),
        ("en-es", "I have no time.", "No tengo tiempo.", "Tengo tiempo."),
        ("en-it", "Nobody came.", "Non è venuto nessuno.", "Sono venuti tutti."),
        ("en-nl", "He is not here.", "Hij is niet hier.", "Hij is hier."),
        ("en-pl", "He does not sleep.", "On nie śpi.", "On śpi."),
        ("en-pt", "He does not sleep.", "Ele não dorme.", "Ele dorme."),
        ("en-sv", "He does not sleep.", "Han sover inte.", "Han sover."),
    ],
)
def test_negations_are_known_in_several_languages(pair: str, source: str, kept: str, lost: str) -> None:
    assert verdict("negation", source, [kept], kept, pair) is False
    assert verdict("negation", source, [kept], lost, pair) is True


def test_a_rule_without_a_list_says_that_it_is_skipped() -> None:
    found = run_checks(["He does not sleep."], [("Nespí.",)], ["Spí."], ("en", "cs"))
    assert found["negation"].skipped == "no list of negations for cs"
    assert "negation skipped: no list of negations for cs" in checks_report(found, ["s"], ["t"])
    assert run_checks(["犬"], [("dog",)], ["dog"], ("ja", "en"))["short"].skipped.startswith("ja writes no blanks")
    assert run_checks(["a b c"], [("a b c",)], ["a b c"], ("en", "en"))["untranslated"].skipped
    assert list(found) == list(NAMES)


def test_faults_are_counted_and_shown() -> None:
    sources, references, texts = (
        ["dog", "cat", "He runs."],
        [("Hund",), ("Katze",), ("Er läuft.",)],
        ["", "", "Er läuft."],
    )
    found = run_checks(sources, references, texts, ("en", "de"))
    assert (found["empty"].lines, found["empty"].faults) == (3, [0, 1])
    text = checks_report(found, sources, texts)
    assert "empty 2 of 3" in text and "empty, line 2: cat -> " in text
    record = checks_record(found, sources, references, texts)
    assert (record["empty"]["faults"], record["empty"]["samples"][1]["line"]) == (2, 2)


def test_two_systems_are_compared_on_the_lines_that_differ() -> None:
    sources, references = ["dog"] * 12, [("Hund",)] * 12
    good, bad = ["Hund"] * 12, ["Hund"] * 4 + [""] * 8
    checks = [run_checks(sources, references, texts, ("en", "de"), ["empty"]) for texts in (good, bad)]
    (worse,), (better,) = compare_checks(checks[1], checks[0]), compare_checks(checks[0], checks[1])
    assert (worse.candidate, worse.champion) == (8, 0)
    assert worse.p_value == pytest.approx(0.5**8)
    assert worse.worse(0.05) and not worse.worse(0.001) and not better.worse(1.0)
    (same,) = compare_checks(checks[1], checks[1])
    assert same.p_value == 1.0 and not same.worse(1.0)
