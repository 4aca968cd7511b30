"""Glossaries from files of three kinds, and terms in other forms than the glossary's."""

import sys
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.services.texts.casing import calm, lemma, small_first
from dragoman.services.texts.glossary import Glossary, read_glossary, read_tbx
from tests.services.texts.test_texts import translate

FORMS = Path(__file__).with_name("words_and_forms.tsv")  # language, term, word, whether it is a form of the term
TBX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="en"><text><body>
  <termEntry id="1">
    <langSet xml:lang="en-US"><tig><term>invoice</term></tig><tig><term>bill</term></tig></langSet>
    <langSet xml:lang="de"><ntig><termGrp><term>Faktur</term>
      <termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></termGrp></ntig>
      <tig><term>Rechnung</term></tig></langSet>
    <langSet xml:lang="fr"><tig><term>facture</term></tig></langSet>
  </termEntry>
</body></text></martif>"""
TBX3 = """<tbx xmlns="urn:iso:std:iso:30042:ed-2" type="TBX-Basic" xml:lang="en"><text><body><conceptEntry id="1">
<langSec xml:lang="en"><termSec><term>old
 man</term></termSec></langSec><langSec xml:lang="de"><termSec><term>Greis</term></termSec></langSec>
</conceptEntry></body></text></tbx>"""


def test_tbx_of_both_versions_gives_the_terms_of_a_pair() -> None:
    assert read_tbx(TBX.encode(), "en", "de", "x") == [("invoice", "Rechnung"), ("bill", "Rechnung")]
    assert read_tbx(TBX.encode(), "fr", "en-GB", "x") == [("facture", "invoice")]
    assert read_tbx(TBX3.encode(), "en", "de", "x") == [("old man", "Greis")]
    with pytest.raises(UserError, match=r"x: has no term from en to ru; its languages: en-US, de, fr"):
        read_tbx(TBX.encode(), "en", "ru", "x")
    with pytest.raises(UserError, match="x: is no TBX file"):
        read_tbx(b"dog\tHund", "en", "de", "x")


def test_entities_of_tbx_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    attack = TBX3.replace("Greis", "a&x;b")
    attack = f'<!DOCTYPE tbx [<!ENTITY x SYSTEM "{tmp_path}/secret">]>{attack}'
    assert read_tbx(attack.encode(), "en", "de", "x") == [("old man", "a&x;b")]  # as it is written


@pytest.mark.parametrize(("name", "text"), [("a.tsv", "dog\tHund\n"), ("a.csv", 'dog,"Hund"\n'), ("a.TBX", TBX3)])
def test_a_file_is_read_by_its_ending(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_glossary(str(tmp_path / name), "translate.glossary", "en", "de")
    assert dict(found.terms) == ({"old man": "Greis"} if "TBX" in name else {"dog": "Hund"})


def test_terms_are_found_in_other_forms_but_other_words_are_not() -> None:
    terms = Glossary({"policy": "Police", "old house": "Altbau", "car": "Wagen", "C++": "C++"})

    def found(text: str) -> list[tuple[str, str, bool]]:
        return [(text[one.start : one.end], one.target, one.exact) for one in terms.find(text, "en")]

    assert found("Policies of old houses") == [("Policies", "Police", False), ("old houses", "Altbau", False)]
    assert found("policy, OLD HOUSE!") == [("policy", "Police", True), ("OLD HOUSE", "ALTBAU", True)]
    assert found("The police care for carts and an old green house") == []
    assert [one[2] for one in found("C++ and a car")] == [True, True]
    assert [one.exact for one in Glossary({"Haus": "house"}).find("Die Häuser", "de")] == [False]


LANGUAGES = sorted({line.split("\t")[0] for line in FORMS.read_text(encoding="utf-8").splitlines()})
QUICK = ("en", "fr", "it")  # the others' dictionaries take a second and 100 MB each to load, Polish 3 s


@pytest.mark.parametrize(
    "language", [one if one in QUICK else pytest.param(one, marks=pytest.mark.long) for one in LANGUAGES]
)
def test_forms_of_a_word_meet_in_every_language_of_the_table(language: str) -> None:
    rows = [line.split("\t") for line in FORMS.read_text(encoding="utf-8").splitlines()]
    wrong = {
        (term, word)
        for code, term, word, same in rows
        if code == language and (lemma(term, language) == lemma(word, language)) != (same == "1")
    }
    assert wrong == {
        "de": {("Fall", "Falle"), ("gut", "Güter")},
        "it": {("porto", "porti"), ("contratto", "contratti")},
    }.get(language, set())


def test_languages_without_a_dictionary_know_the_forms_as_written() -> None:
    assert lemma("HOUSES", "en-GB") == lemma("house", "en") == "house"
    assert lemma("Psy", "xx") == "psy"
    assert lemma("犬", "ja") == "犬"


TERMS = [  # a glossary's term, a text, the language, what is found
    ("import", "It is important.", "en", []),
    ("author", "The authorities sleep.", "en", []),
    ("US", "The man sees us.", "en", []),
    ("IT", "It sleeps.", "en", []),
    ("US market", "us markets, US markets", "en", ["US markets"]),
    ("PDF", "Two PDFs and a pdf.", "en", ["PDFs"]),
    ("US", "The US sleeps.", "en", ["US"]),
    ("苹果", "我喜欢苹果手机。", "zh", ["苹果"]),
    ("京都", "東京都に住む。", "ja", []),
    ("机器学习", "他用机器学习模型。", "zh", ["机器学习"]),
    ("りんご", "私はりんごが好きです。", "ja", ["りんご"]),
    ("イン", "インクが好きです。", "ja", []),
    ("사과", "나는 사과를 좋아한다. 사과에서", "ko", ["사과", "사과"]),
    ("개", "개가 나를", "ko", ["개"]),
    ("사과", "사과나무", "ko", []),
    ("หมา", "ฉันเห็นหมาดำ", "th", ["หมา"]),
    ("หมา", "หมายเลข", "th", []),
    ("ışık", "IŞIK", "tr", ["IŞIK"]),
]


@pytest.mark.parametrize(("term", "text", "language", "expected"), TERMS)
def test_a_term_is_found_as_a_word_of_its_language(term: str, text: str, language: str, expected: list[str]) -> None:
    found = Glossary({term: "x"}).find(text, language)
    assert [text[spot.start : spot.end] for spot in found] == expected


def test_a_terms_translation_has_the_capitals_of_its_language() -> None:
    def found(text: str, translation: str, language: str) -> list[str]:
        return [spot.target for spot in Glossary({"dog": translation}).find(text, "en", language)]

    assert found("DOG Dog dog", "ilik", "tr") == ["İLİK", "İlik", "ilik"]
    assert found("DOG Dog", "ijs", "nl") == ["IJS", "IJs"]
    assert found("DOG Dog", "σκύλος", "el") == ["ΣΚΥΛΟΣ", "Σκύλος"]


def test_the_report_says_in_which_form_a_term_stands() -> None:
    rebuilt = translate(
        "Le chien dort. The dogs sleep. The old man.", glossary=Glossary({"dog": "loup", "man": "ours"})
    )
    terms = {one["source"]: one for one in rebuilt.report["terms"]}
    assert (terms["dogs"]["text"], terms["dogs"]["form"], "form" in terms["man"]) == ("loup", "base", False)
    assert rebuilt.text[terms["dogs"]["start"] : terms["dogs"]["end"]] == "loup"


def test_a_text_in_capitals_is_calmed_in_the_letters_of_its_language() -> None:
    assert calm("IŞIK IŞIK", "tr") == "Işık ışık"
    assert calm("Ο ΔΡΟΜΟΣ ΜΟΥ", "el") == "Ο δρομος μου"
    assert calm("DIE STRAẞE", "de") == "Die straße"
    assert (small_first("IJs", "nl"), small_first("Işık", "tr")) == ("ijs", "ışık")


def calls(terms: list[str], text: str) -> int:
    """Returns the number of calls that looking for the terms takes, once they are indexed."""
    glossary, found = Glossary(dict.fromkeys(terms, "x")), 0
    list(glossary.find("none", "en"))

    def count(*_: object) -> None:
        nonlocal found
        found += 1

    sys.setprofile(count)
    try:
        list(glossary.find(text, "en"))
    finally:
        sys.setprofile(None)
    return found


def test_the_longest_of_terms_that_begin_alike_is_found_and_a_term_has_a_length() -> None:
    terms = Glossary({"dog": "1", "dog house": "2", "dog house door": "3", "(dog": "4"})
    assert [one.target for one in terms.find("A dog house window, dog houses, a (dog", "en")] == ["2", "1", "4"]
    with pytest.raises(UserError, match="x, entry 1: a term of 2,000 characters; at most 1,024"):
        Glossary.of([("a" * 2000, "b")], "x")


def test_a_term_in_the_capitals_of_the_text_comes_before_another() -> None:
    assert [one.target for one in Glossary({"us": "uns", "US": "USA"}).find("The US told us.", "en")] == ["USA", "uns"]
