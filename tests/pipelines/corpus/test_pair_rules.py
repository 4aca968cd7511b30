"""Rules that judge a pair by itself: a pair that each drops beside one that it keeps."""

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.clean.pair_rules import text_rules
from dragoman.pipelines.corpus.clean.rules import NEAR, RULES, check_rules, chosen_rules
from dragoman.pipelines.corpus.settings import CleanConfig, CorpusConfig


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("script", ("Good morning.", "Доброе утро."), ("The letter Ж is Russian.", "Der Buchstabe Ж ist russisch.")),
        ("garbage", ("Good morning.", "@# %& *+ {}|~"), ("C++ & C# (1970)", "C++ & C# (1970)")),
        ("repeated", ("It is good.", "gut gut gut gut gut gut gut gut"), ("No, no, no!", "Nein, nein, nein!")),
        ("repeated", ("Oh!", "Ooooooh!"), ("Ooooooh!", "Ooooh, ooooooh!")),
        ("untranslated", ("He is in New York.", "He is in New York!"), ("New York", "New York")),
        ("addresses", ("See https://a.example/x.", "Siehe https://b.example/x."), ("Ask a@b.org!", "Frag a@b.org!")),
        ("markup", ("A <b>bold</b> word", "Ein <b>fettes Wort"), ("A <b>bold</b> word", "Ein <b>fettes</b> Wort")),
        ("numbers", ("It costs 17 euros.", "Es kostet 18 Euro."), ("I have 1,000.", "Ich habe 1.000.")),
        ("numbers", ("At 3 p.m.", "Um 16 Uhr."), ("At 3 p.m.", "Um 15 Uhr.")),
        ("numbers", ("We come at 7:45.", "Wir kommen um 0:45."), ("At 12:30 a.m.", "Um 0:30.")),
        ("numbers", ("All 100 came.", "Alle 000 kamen."), ("I get up at 7 o'clock.", "Ich stehe um 7:00 auf.")),
        ("numbers", ("1.5 million people", "1 600 000 Menschen"), ("1.5 million people", "1 500 000 Menschen")),
        ("numbers", ("2 billion", "2 000"), ("2 billion", "2 000 000 000")),
        ("numbers", ("0.5 thousand in 3", "5000 in 3"), ("3,5 Mio. Tonnen", "3,500,000 tonnes")),
        ("numbers", ("在150万人", "1 600 000 people"), ("150万人", "1,500,000 people")),
        ("numbers", ("in 1990-91", "in 1990-1992"), ("in 1990-91 and 1.5 million", "1990–1991, 1.500.000")),
        ("numbers", ("in 1998-9", "in 1998-2001"), ("in 1998-9, 1998-03", "in 1998–1999, 1998–2003")),
        ("numbers", ("2.125 million", "2 126 000"), ("2.125 million", "2 125 000")),
        ("numbers", ("on 2010-08", "2010–2008"), ("in 1999/00", "in 1999/2000")),
        ("numbers", ("In 1990 and 1991.", "In 1990 und 1992."), ("He has two of 7.", "Er hat 2 von 7.")),
    ],
)
def test_a_rule_drops_what_it_is_for_and_keeps_its_neighbour(
    rule: str, bad: tuple[str, str], good: tuple[str, str]
) -> None:
    fails = text_rules(("en", "de"))[rule]
    assert fails(*bad)
    assert not fails(*good)


def test_presets_and_lists_name_rules_in_the_order_of_judging() -> None:
    assert chosen_rules(CleanConfig()) == ()
    assert chosen_rules(CleanConfig(rules="strict")) == (*RULES, NEAR)
    assert chosen_rules(CleanConfig(rules=[NEAR, "numbers", "script"])) == ("script", "numbers", NEAR)


def test_a_misspelt_rule_is_refused_with_the_choices() -> None:
    with pytest.raises(UserError, match=r"nubmers.*numbers"):
        chosen_rules(CleanConfig(rules=["nubmers"]))


@pytest.mark.parametrize("form", ["text", "labelled"])
def test_rules_are_refused_where_there_are_no_pairs(form: str) -> None:
    corpus = CorpusConfig(name="books", format=form, clean=CleanConfig(rules="web"))  # type: ignore[arg-type]  # two of them
    with pytest.raises(UserError, match=rf"corpus\.clean\.rules=web.*corpus.format={form}"):
        check_rules(corpus, pairs=False)
    check_rules(CorpusConfig(name="books", clean=CleanConfig(rules="web")), pairs=True)
