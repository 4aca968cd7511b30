"""Glossaries from files of three kinds, and terms in other forms than the glossary's."""

from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.services.texts.glossary import Glossary, read_glossary
from dragoman.services.texts.stems import stem
from dragoman.services.texts.tbx import read_tbx
from tests.services.texts.test_texts import translate

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


def test_languages_without_an_algorithm_know_the_forms_as_written() -> None:
    assert stem("Hunde", "de-AT") == stem("Hund", "de") == "hund"
    assert stem("Psy", "xx") == "psy"
    assert stem("犬", "ja") == "犬"


def test_the_report_says_in_which_form_a_term_stands_and_which_article_is_before_it() -> None:
    rebuilt = translate(
        "Le chien dort. The dogs sleep. The old man.", glossary=Glossary({"dog": "loup", "man": "ours"})
    )
    terms = {one["source"]: one for one in rebuilt.report["terms"]}
    assert (terms["dogs"]["text"], terms["dogs"]["form"], "form" in terms["man"]) == ("loup", "base", False)
    assert rebuilt.text[terms["dogs"]["start"] : terms["dogs"]["end"]] == "loup"
    kept = translate("The man sees le dog.", glossary=Glossary({"dog": "loup"})).report["terms"]
    assert [one.get("article") for one in kept] == ["le"]
