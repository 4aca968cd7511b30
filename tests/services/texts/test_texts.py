"""What a text of each kind becomes, with a model that puts words in capitals and one that turns them around."""

import tracemalloc

import numpy as np
import pytest

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import Prepared, Rebuilt, pending, prepare
from dragoman.services.texts.stand_ins import StandIns, find_stand_ins
from tests.services.texts.fakes import STAND_INS, identity

WORDS = {"the": "der", "dog": "hund", "sees": "sieht", "man": "mann", "sleeps": "schläft", "two": "zwei", "old": "alte"}


def german(line: str) -> str:
    """Word by word; unknown words stay, and their capitals."""
    words = []
    for word in line.split():
        core = word.strip(".,!?")
        found = WORDS.get(core.lower(), core)
        words.append(word.replace(core, found.capitalize() if core[:1].isupper() else found))
    return " ".join(words)


def translate(text: str, *, stand_ins: StandIns = STAND_INS, aligned: bool = True, **options: object) -> Rebuilt:
    return run(prepare(text, TextOptions(**options), "en", 400, "fr"), stand_ins, aligned)  # type: ignore[arg-type]


def run(prepared: Prepared, stand_ins: StandIns = STAND_INS, aligned: bool = True) -> Rebuilt:
    prepared.stand_ins = stand_ins
    while not prepared.finished:
        for asked in pending([prepared]):
            asked.take([answer(line, asked.aligned and aligned) for line in asked.lines])
    return prepared.rebuild()


def answer(line: str, aligned: bool) -> Translation:
    text = german(line)
    maps: tuple[AttentionMap, ...] = ()
    if aligned:
        sides = (*line.split(), END), (*text.split(), END)
        maps = (AttentionMap(*sides, np.eye(len(sides[1]), len(sides[0]), dtype=np.float32), "l0h0", "output"),)
    return Translation(text, 0.0, [Alternative(text, 0.0)], attention=maps)


def lines(text: str, **options: object) -> list[str]:
    return prepare(text, TextOptions(**options), "en", 400, "de").lines  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- The dog.\n- The man.\n", ["The dog.", "The man."]),
        ("1. The dog.\n  2) The man.\n# Dog\n> Man\n[x] Old dog", ["The dog.", "The man.", "Dog.", "Man.", "Old dog."]),
        ("The dog\tThe man\t42\n| Dog | Man |\n|---|---|", ["The dog.", "The man.", "Dog.", "Man."]),
        ("The dog sees\nthe man.", ["The dog sees the man."]),
        ("The dog\nThe man", ["The dog.", "The man."]),
        ("The dog sleeps.The man sees.", ["The dog sleeps.", "The man sees."]),
        ("42\n😀\n...\n---\n:-)\n5 €, 3 kg", []),
        ("THE DOG SLEEPS!", ["The dog sleeps!"]),
        ("(The dog sleeps.) “The man sees.”", ["The dog sleeps.", "The man sees."]),
        ("The man’s dog", ["The man's dog."]),
        ("Go.\n\n    Dog", ["Go.", "Dog."]),
    ],
)
def test_a_text_is_cut_into_sentences(text: str, wanted: list[str]) -> None:
    assert lines(text) == wanted


def test_line_feeds_end_no_sentence_where_a_client_says_so() -> None:
    assert lines("The dog\nThe man sees. Go.", split_sentences="nonewlines") == ["The dog The man sees.", "Go."]
    assert lines("The dog sees. Go.", split_sentences="off") == ["The dog sees. Go."]


def test_every_line_feed_ends_a_sentence_where_a_client_says_so() -> None:
    assert lines("The dog sees\nthe man. Go.", split_sentences="newlines") == ["The dog sees.", "the man.", "Go."]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("THE DOG SLEEPS.", "DER HUND SCHLÄFT."),
        ("the dog sleeps.", "der hund schläft."),
        ("Dog", "Hund"),
        ("The dog sees\n  {name} today.", "Der hund sieht\n  {name} today."),
        ("The dog sees 42 {x} at https://a.b/c?d=e.", "Der hund sieht 42 {x} at https://a.b/c?d=e."),
        ("The dog 😀 sees :smile: the man.", "Der hund 😀 sieht :smile: der mann."),
        ("The <b>old dog</b> sees <x id='1'/>.", "Der <b>alte hund</b> sieht <x id='1'/>."),
        ("{n, plural, one {The dog} other {# old dog}}", "{n, plural, one {Der hund} other {# alte hund}}"),
        ("{g, select, a {The dog} other {'{x}' man}}!", "{g, select, a {Der hund} other {'{x}' mann}}!"),
        ("  The dog.  \r\n\r\n\tThe man.\n", "  Der hund.  \r\n\r\n\tDer mann.\n"),
        ("The dog... The man?!", "Der hund... Der mann?!"),
        ("", ""),
    ],
)
def test_what_must_not_change_stays(text: str, wanted: str) -> None:
    for stand_ins in (STAND_INS, StandIns()):
        rebuilt = translate(text, stand_ins=stand_ins)
        assert rebuilt.text == wanted
        assert rebuilt.report["complete"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "<p>The <b>dog</b> sees <i>the <u>old</u> man</i>.</p>",
            "<p>Der <b>hund</b> sieht <i>der <u>alte</u> mann</i>.</p>",
        ),
        ('<p title="The dog">The dog<br>The man</p>', '<p title="Der hund">Der hund<br>Der mann</p>'),
        ("<code>The dog</code><pre>The\ndog</pre>", "<code>The dog</code><pre>The\ndog</pre>"),
        (
            "<script>The dog</script><style>the {}</style>The dog",
            "<script>The dog</script><style>the {}</style>Der hund",
        ),
        ('The <i translate="no">old dog</i> sleeps', 'Der <i translate="no">old dog</i> schläft'),
        ("The dog &lt;3 &amp; the&nbsp;man", "Der hund &lt;3 &amp; der mann"),
        ("<ul><li>The dog<li>The man</ul>", "<ul><li>Der hund<li>Der mann</ul>"),
        ("The <b>dog <i>sleeps</b> old</i>", "Der <b>hund <i>schläft</b> alte</i>"),
        (
            '<img src=x alt="The dog"><input placeholder="The man">',
            '<img src=x alt="Der hund"><input placeholder="Der mann">',
        ),
        ("<!-- The dog --><title>The dog</title>", "<!-- The dog --><title>Der hund</title>"),
        ("The dog &amp; the man", "Der hund &amp; der mann"),
        ("The dog < the man", "Der hund &lt; der mann"),
    ],
)
def test_html(text: str, wanted: str) -> None:
    rebuilt = translate(text, format="html")
    assert (rebuilt.text, rebuilt.report["complete"]) == (wanted, True)


@pytest.mark.parametrize(
    ("options", "text", "wanted"),
    [
        ({}, 'The dog sees <x id="12"></x> and <x id="3"/>.', 'Der hund sieht <x id="12"></x> and <x id="3"/>.'),
        ({}, "<d><t>The dog</t><t>The <b>man</b> sees</t></d>", "<d><t>Der hund</t><t>Der <b>mann</b> sieht</t></d>"),
        ({"ignore_tags": ("x",)}, "The <x>old dog</x> sleeps", "Der <x>old dog</x> schläft"),
        ({}, "<![CDATA[The <dog>]]>&#65;", "Der &lt;dog&gt;A"),
        ({}, '<?xml version="1.0"?>\n<d>The dog</d>', '<?xml version="1.0"?>\n<d>Der hund</d>'),
        ({}, "<a:b xmlns:a='u'>The dog</a:b><!-- x -->", "<a:b xmlns:a='u'>Der hund</a:b><!-- x -->"),
    ],
)
def test_xml(options: dict[str, tuple[str, ...]], text: str, wanted: str) -> None:
    assert translate(text, format="xml", **options).text == wanted


def test_tags_split_sentences_or_do_not_as_deepl_documents_them() -> None:
    text = "<p>The dog<par>The man</par>sleeps</p>"
    assert lines(text, format="xml") == ["The dogThe mansleeps."]
    assert lines(text, format="xml", splitting_tags=("par",)) == ["The dog.", "The man.", "sleeps."]
    outline = "<d><t>The dog</t><t>sleeps</t></d>"
    assert lines(outline, format="xml") == ["The dog.", "sleeps."]
    assert lines(outline, format="xml", outline_detection=False) == ["The dogsleeps."]
    assert lines(outline, format="xml", non_splitting_tags=("t",)) == ["The dogsleeps."]


def test_markdown() -> None:
    text = (
        "---\ntitle: The dog\n---\n# The dog\n\n- The **old dog** `sleeps` [here](http://x.y 'T')\n- [ ] The man\n\n"
        "> The dog sees\n> the man.\n\n| The dog | `x` |\n|---|---|\n| The man | 42 |\n\n```\nThe dog\n```\n\n"
        "![The dog](a.png)  \nThe man \\* &amp; <b>dog</b>\n\n    The dog\n"
    )
    wanted = (
        "---\ntitle: The dog\n---\n# Der hund\n\n"
        "- Der **alte hund** `sleeps` [here](http://x.y 'T')\n- [ ] Der mann\n\n"
        "> Der hund sieht\n> der mann.\n\n| Der hund | `x` |\n|---|---|\n| Der mann | 42 |\n\n```\nThe dog\n```\n\n"
        "![Der hund](a.png)  \nDer mann \\* &amp; <b>hund</b>\n\n    The dog\n"
    )
    rebuilt = translate(text, format="markdown")
    assert (rebuilt.text, rebuilt.report["complete"]) == (wanted, True)


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("xml", '<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><d>&b;</d>', "a document type is not accepted"),
        ("xml", '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><d>&x;</d>', "a document type is not accepted"),
        ("xml", "<d>&unknown;</d>", r"undefined entity \(line 1, column 4\)"),
        ("xml", "<d>", "mismatched tag"),
        ("xml", "</texts><d>", "junk after document element|not well-formed"),
        ("xml", "<d>" * 5000 + "</d>" * 5000, "nested deeper than 100"),
        ("html", "<b>" * 5000, "nested deeper than 100"),
    ],
)
def test_bombs_are_refused_without_memory(form: str, text: str, message: str) -> None:
    tracemalloc.start()
    with pytest.raises(UserError, match=message):
        lines(text, format=form)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_the_certificate_names_what_was_kept_and_how() -> None:
    report = translate("The dog sees {name} and 42 <b>old</b> 😀 dog.").report
    text = translate("The dog sees {name} and 42 <b>old</b> 😀 dog.").text
    assert report["complete"] is True
    kept = {one["text"]: one["how"] for one in report["placeholders"]}
    assert kept == {"{name}": "stand-in", "42": "copied", "😀": "aligned"}
    assert [one["how"] for one in report["tags"]] == ["aligned"]
    for one in report["placeholders"]:
        assert text[one["start"] : one["end"]] == one["text"]
    cut = translate("The dog sees {name}.", stand_ins=StandIns()).report
    assert [one["how"] for one in cut["placeholders"]] == ["cut"]


def test_an_alignment_shows_what_was_asked_not_what_stood_for_it() -> None:
    prepared = prepare("The dog sees {name} 😀 the man.", TextOptions(), "en", 400, "de")
    run(prepared)
    record = prepared.attention()[0]
    assert record["source_tokens"] == ["The", "dog", "sees", "{name}", "the", "man.", END]
    assert record["target_tokens"] == ["Der", "hund", "sieht", "{name}", "der", "mann.", END]


def test_loops_are_broken_long_sentences_halved_and_silence_is_reported() -> None:
    looping = prepare("The old dog sleeps.", TextOptions(), "en", 400, "de")
    looping.take([Translation("Der Hund hund Hund Hund Hund schläft schläft.", 0.0, loops=True)])
    rebuilt = looping.rebuild()
    assert (rebuilt.text, rebuilt.report["loops"]) == ("Der Hund schläft schläft.", ["The old dog sleeps."])
    long = prepare("The dog sees the man, and the man sees the dog.", TextOptions(), "en", 400, "de")
    long.take([Translation("Der", 0.0, truncated=True)])
    assert long.lines == ["The dog sees the man,.", "and the man sees the dog."] or len(long.lines) == 2
    long.take(identity(long.lines))
    rebuilt = long.rebuild()
    assert rebuilt.report["long"] == ["The dog sees the man, and the man sees the dog."]
    assert "cut" not in rebuilt.report
    silent = prepare("The dog.", TextOptions(), "en", 400, "de")
    silent.take([Translation("", 0.0)])
    assert silent.rebuild().text == "The dog."
    assert silent.rebuild().report["untranslated"] == ["The dog."]


def test_words_outside_of_the_vocabulary_are_copied() -> None:
    prepared = prepare("The dog sees “Żółw”.", TextOptions(), "en", 400, "de")
    prepared.stand_ins = STAND_INS
    prepared.take([Translation("Der ?", 0.0, missing=("Ż", "“", "”"), unknown=3)])
    rebuilt = run(prepared)
    assert rebuilt.text == "Der hund sieht “Żółw”."
    assert [one["text"] for one in rebuilt.report["words"]] == ["“", "Żółw", "”"]


def test_a_glossary_is_met_by_alignment_with_its_capitals() -> None:
    glossary = Glossary.of([("dog", "Köter"), ("old man", "Greis"), ("sleeps", "schläft")], "terms")
    rebuilt = translate("The dog sees the old man. DOG! The dog sleeps.", glossary=glossary)
    assert rebuilt.text == "Der Köter sieht der Greis. KÖTER! Der Köter schläft."
    assert [(one["source"], one["text"], one["how"]) for one in rebuilt.report["terms"]] == [
        ("dog", "Köter", "aligned"),
        ("old man", "Greis", "aligned"),
        ("DOG", "KÖTER", "copied"),
        ("dog", "Köter", "aligned"),
        ("sleeps", "schläft", "copied"),
    ]
    assert translate("The dog sleeps.", glossary=glossary, aligned=False).text == "Der Köter schläft."
    for rows, message in (([("a", "")], "entry 1: a term is empty"), ([("a", "b"), ("a", "c")], "two translations")):
        with pytest.raises(UserError, match=message):
            Glossary.of(rows, "terms")


def test_stand_ins_are_what_a_model_copies() -> None:
    german_numbers = {"three": "drei", "four": "vier", "five": "fünf", "seven": "sieben", "two": "zwei"}

    def model(asked: list[str]) -> list[str]:
        found = []
        for line in asked:
            words = [german_numbers.get(word, "?" if word.isdigit() else word) for word in line.split()]
            found.append(" ".join(word for word in words if not word.startswith("Anna")))
        return found

    found = find_stand_ins(model, "en-GB")
    assert ("Peter", ("Peter",)) in found.names
    assert ("Anna", ("Anna",)) not in found.names
    assert {source: forms[0] for source, forms in found.numbers} == german_numbers
    assert find_stand_ins(lambda asked: ["x"] * len(asked), "en") == StandIns()
