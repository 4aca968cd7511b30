"""Passages from a grammar of text and units, in every format, word for word with a perfect alignment.

The translator marks each word, so that an answer without the marks has to be what went in: no unit and no character is
lost, doubled or moved away, unless the report says so.
"""

import io
import random
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import polib
import pytest

from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.documents.document import DocumentError
from dragoman.services.texts.documents.kinds import read_document
from dragoman.services.texts.documents.xliff import OPTIONS as XLIFF
from dragoman.services.texts.options import FORMATS, TextOptions
from dragoman.services.texts.prepare import prepare
from tests.services.texts.passages import (
    COUNT,
    SAMPLE,
    W,
    characters,
    check_documents,
    check_page,
    check_units,
    make,
    packed,
    translate,
)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("html", "<td>$<b>5</b>.00</td>", "<td>$<b>5</b>.00</td>"),
        ("html", "<p>20 m<sup>2</sup> of house</p>", "<p>20 m<sup>2</sup> o~f h~ouse</p>"),
        ("html", "<p>H<sub>2</sub>O and CO<sub>2</sub></p>", "<p>H<sub>2</sub>O a~nd CO<sub>2</sub></p>"),
        ("html", "<p>The 1<sup>st</sup> dog</p>", "<p>T~he 1<sup>st</sup> d~og</p>"),
        ("html", "<p>The dog<sup>1</sup> sleeps.</p>", "<p>T~he d~og<sup>1</sup> s~leeps.</p>"),
        ("html", "<p>Press <kbd>A</kbd>+<kbd>B</kbd> now.</p>", "<p>P~ress <kbd>A</kbd>+<kbd>B</kbd> n~ow.</p>"),
        ("markdown", "Press <kbd>A</kbd>+<kbd>B</kbd> now.", "P~ress <kbd>A</kbd>+<kbd>B</kbd> n~ow."),
        ("markdown", "It costs $**5**.00 today.", "I~t c~osts $**5**.00 t~oday."),
        ("html", "<p><span>T</span>he dog sleeps.</p>", "<p><span>T</span>~he d~og s~leeps.</p>"),
        ("html", 'She says "<b>I</b> sleep".', 'S~he s~ays "<b>~I</b> s~leep".'),
        ("html", "She is <b>ok</b>... now.", "S~he i~s <b>o~k</b>... n~ow."),
        ("html", "<a href=1>Home</a><a href=2>About us</a>", "<a href=1>H~ome</a><a href=2>A~bout u~s</a>"),
        ("markdown", "[Home](a)[about us](b)", "[H~ome](a)[a~bout u~s](b)"),
        ("html", "<a href=x>The dog</a><span>5</span>", "<a href=x>T~he d~og</a><span>5</span>"),
        ("html", "<p>The <b>dog</b>/<i>man</i> sleeps.</p>", "<p>T~he <b>d~og</b>/<i>man</i> s~leeps.</p>"),
        ("html", "<p>It sleeps.<sup>1</sup> The man.</p>", "<p>I~t s~leeps.<sup>1</sup> T~he m~an.</p>"),
        ("xml", "It sleeps.<x id='1'/>The man.", "I~t s~leeps.<x id='1'/>T~he m~an."),
        ("html", "<p>The <%= name %> dog.</p>", "<p>T~he <%= name %> d~og.</p>"),
        ("html", "<p><?php if ($a->b) ?>The dog</p>", "<p><?php if ($a->b) ?>T~he d~og</p>"),
        ("html", "<p>The {{ a < b }} dog.</p>", "<p>T~he {{ a < b }} d~og.</p>"),
        (
            "html",
            "<p>{n, plural, one {a <b>dog</b>} other {# <b>dogs</b>}}</p>",
            "<p>{n, plural, one {a~ <b>d~og</b>} other {# <b>d~ogs</b>}}</p>",
        ),
        ("xml", "{N, select, a {one dog} other {<x/> dogs}}", "{N, select, a {o~ne d~og} other {<x/> d~ogs}}"),
        ("markdown", '!!! note "A dog"\n    The man.\n', '!!! note "A~ d~og"\n    T~he m~an.\n'),
        ("markdown", "+++\ntitle = 1\n+++\n\nThe man.\n", "+++\ntitle = 1\n+++\n\nT~he m~an.\n"),
        ("markdown", "import A from 'b'\n\nThe man.\n", "import A from 'b'\n\nT~he m~an.\n"),
    ],
)
def test_what_is_one_word_or_two_texts_is_found_before_sentences_are(kind: str, text: str, wanted: str) -> None:
    rebuilt = translate(text, TextOptions(format=kind))  # type: ignore[arg-type]
    assert (rebuilt.text, rebuilt.report["complete"]) == (wanted, True)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("html", "<svg><text>The dog</text></svg><noscript>A man</noscript>", None),
        (
            "html",
            "<p translate=no>The dog <b translate=yes>a man</b></p>",
            "<p translate=no>The dog <b translate=yes>a~ m~an</b></p>",
        ),
        ("html", "<img alt=dog>", '<img alt="d~og">'),
        ("markdown", "|a|\n|-|\n|dog \\| `x\\|y` man|", "|a~|\n|-|\n|d~og \\| `x\\|y` m~an|"),
        ("markdown", "A dog <br> - man <b title='old'>men</b>", "A~ d~og <br> - m~an <b title='o~ld'>m~en</b>"),
        ("markdown", "A $a\\,b^*$ dog $c^*$ sleeps", "A~ $a\\,b^*$ d~og $c^*$ s~leeps"),
        ("text", "The dog&#10;- The man\\n2. Old&nbsp;men", "T~he d~og&#10;- T~he m~an\\n2. O~ld&nbsp;m~en"),
    ],
)
def test_what_a_reader_sees_is_translated_and_breaks_end_lines(kind: str, text: str, wanted: str | None) -> None:
    rebuilt = translate(text, TextOptions(format=kind))  # type: ignore[arg-type]
    assert rebuilt.report["complete"] and rebuilt.text == (
        wanted or re.sub(r"(?<=>)(\w)(?=\w* \w)", r"\1~", rebuilt.text)
    )
    assert rebuilt.text != text


@pytest.mark.parametrize(
    "kind", ["<pre>the code</pre>", "<textarea>the code</textarea>", "<p><code>the code</code></p>"]
)
def test_what_is_kept_from_the_model_is_named(kind: str) -> None:
    report = translate(kind, TextOptions(format="html")).report
    assert (report["complete"], report["sentences"]) == (True, 0)
    assert "the code" in report["placeholders"][0]["text"]


def test_a_sentence_that_is_lost_is_asked_for_alone() -> None:
    text = "The dog sleeps. The man {name} reads. Men sing."
    rebuilt = translate(text, TextOptions(split_sentences="off"), short=True)
    assert rebuilt.text.replace("~", "") == text
    assert (rebuilt.report["complete"], rebuilt.report["sentences"]) == (True, 3)


@pytest.mark.parametrize(
    "between",
    [". <img src=a>", ".<img src=a> ", ". <wbr>", ". <a id=x></a>", ".<sup><a href=1>1</a></sup> ", ".<sup>[1]</sup> "],
)
def test_a_unit_between_two_sentences_ends_the_first(between: str) -> None:
    page = f"<p>The dog sleeps{between}The man reads.</p>"
    prepared = prepare(page, TextOptions(format="html"), "en", 400, "de")
    assert prepared.lines == ["The dog sleeps.", "The man reads."]


def test_no_link_comes_back_empty() -> None:
    page = "<p>The dog <a href=x>sees</a>, <a href=y>sings</a>, <a href=z>sleeps</a>.</p>"
    prepared = prepare(page, TextOptions(format="html"), "en", 400, "de")
    while prepared.lines:  # the model leaves the words of the links out
        prepared.take([Translation("Der Hund.", 0.0, [Alternative("Der Hund.", 0.0)]) for _ in prepared.lines])
    rebuilt = prepared.rebuild()
    assert rebuilt.report["complete"]
    assert re.findall(r"<a href=(\w)>[^<]+</a>", rebuilt.text) == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.srt", "1\n00:01,000 --> 00:02,000\nA dog.\n2\n00:03,000 --> 00:04,000\nA man.\n", ["A dog.", "A man."]),
        ("a.srt", "1\n00:01,000 --> 00:02,000\nA dog,\n\nold.\n\n2\n00:03,000 --> 00:04,000\nA man.\n", None),
        ("a.srt", "1\n00:00:01 --> 00:00:02\nA & <i>dog</i>.\n", ["A & <i>dog</i>."]),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:03.000 align:start\na<00:02.000> <c.red>dog</c>\n", None),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:03.000\n<v Anna>a dog\n\nNOTE a man\n", ["<v Anna>a dog"]),
    ],
)
def test_subtitles_come_back_with_their_times(name: str, text: str, wanted: list[str] | None) -> None:
    document = read_document(name, text.encode())
    assert wanted is None or [passage.text for passage in document.passages] == wanted
    answers = [translate(passage.text, passage.options).text for passage in document.passages]
    answer = document.write(answers, "de").decode()
    assert answer != text
    assert answer.replace("~", "") == text


def test_a_broken_line_of_times_is_refused() -> None:
    with pytest.raises(DocumentError, match="line 2: '00:00:01,000 --> soon' is no line of times"):
        read_document("a.srt", b"1\n00:00:01,000 --> soon\nA dog.\n\n2\n00:03,000 --> 00:04,000\nA man.\n")


PLURALS = {
    "ja": ("nplurals=1; plural=0;", ["%d f~iles"]),
    "de": ("nplurals=2; plural=(n != 1);", ["o~ne f~ile", "%d f~iles"]),
    "fr": ("nplurals=2; plural=(n > 1);", ["%d f~iles", "%d f~iles"]),
    "ru": (
        "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
        ["%d f~iles"] * 3,
    ),
    "ar": (
        "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);",
        ["%d f~iles", "o~ne f~ile", *["%d f~iles"] * 4],
    ),
}


@pytest.mark.parametrize("language", PLURALS)
def test_plural_forms_are_those_of_the_header_and_msgfmt_reads_them(language: str, tmp_path: Path) -> None:
    rule, wanted = PLURALS[language]
    head = f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=ISO-8859-2\\n"\n"Plural-Forms: {rule}\\n"\n\n'
    forms = "".join(f'msgstr[{form}] ""\n' for form in range(len(wanted)))
    source = head + f'#, c-format\nmsgid "one file"\nmsgid_plural "%d files"\n{forms}'
    document = read_document("a.po", source.encode())
    answer = document.write([translate(passage.text, passage.options).text for passage in document.passages], language)
    assert b"charset=UTF-8" in answer
    assert list(polib.pofile(answer.decode())[0].msgstr_plural.values()) == wanted
    if shutil.which("msgfmt"):
        (tmp_path / "a.po").write_bytes(answer)
        subprocess.run(["msgfmt", "-c", "-o", str(tmp_path / "a.mo"), str(tmp_path / "a.po")], check=True)


def test_a_document_without_text_says_so() -> None:
    assert read_document("a.docx", make(".docx", [["42"]])).notes == ("no text to translate was found in it",)


def test_strict_and_oddly_named_parts_of_word_are_read() -> None:
    strict = W.replace("schemas.openxmlformats.org/wordprocessingml/2006", "purl.oclc.org/ooxml/wordprocessingml")
    body = "<w:p><w:r><w:t>A well</w:t><w:noBreakHyphen/><w:t>known dog.</w:t></w:r></w:p>"
    for space, name in ((W, "word/document2.xml"), (strict, "word/document.xml")):
        part = f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>'
        document = read_document("a.docx", packed({name: part}))
        assert [passage.text for passage in document.passages] == ["A well\u2011known dog."]
        with zipfile.ZipFile(io.BytesIO(document.write(["Ein wohl\u2011bekannter Hund."], "de"))) as archive:
            assert b"wohl</w:t><w:noBreakHyphen/><w:t>bekannter" in archive.read(name)


DOCUMENTS = (".docx", ".pptx", ".odt", ".po", ".srt", ".vtt")


@pytest.mark.parametrize("kind", FORMATS)
def test_every_letter_that_a_reader_sees_is_translated_or_named(kind: str, count: int = SAMPLE) -> None:
    complete = sum(check_page(random.Random(f"{kind} {number}"), kind) for number in range(count))
    assert complete >= 0.9 * count


@pytest.mark.parametrize("kind", ["icu", "xliff"])
def test_units_in_plurals_and_in_codes_stay(kind: str, count: int = SAMPLE) -> None:
    check_units(count, kind)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_is_whole_or_said_not_to_be(kind: str, count: int = SAMPLE) -> None:
    check_documents(count, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", [*FORMATS, "icu", "xliff", *DOCUMENTS])
def test_all_of_this_holds_for_many(kind: str) -> None:
    checks = {
        **dict.fromkeys(FORMATS, test_every_letter_that_a_reader_sees_is_translated_or_named),
        **dict.fromkeys(DOCUMENTS, test_a_document_is_whole_or_said_not_to_be),
    }
    checks.get(kind, test_units_in_plurals_and_in_codes_stay)(kind, COUNT)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("markdown", "Java**Script** sleeps.", "**J~avaScript** s~leeps."),
        ("html", "<p>An i<em>Phone</em> sleeps.</p>", "<p>A~n <em>i~Phone</em> s~leeps.</p>"),
        ("html", "<p>Java<span>Script</span> sleeps.</p>", "<p><span>J~avaScript</span> s~leeps.</p>"),
        ("html", "<p><q>Git</q>Hub sleeps.</p>", "<p><q>G~itHub</q> s~leeps.</p>"),
        ("html", "<li><a>Home</a>About</li>", "<li><a>H~ome</a>A~bout</li>"),
        ("html", "<h1>The dog<small>The man</small></h1>", "<h1>T~he d~og<small>T~he m~an</small></h1>"),
        (
            "html",
            "<p>A <ruby>dog<rp>(</rp><rt>woof</rt><rp>)</rp></ruby>.</p>",
            "<p>A~ <ruby>d~og<rp>(</rp><rt>w~oof</rt><rp>)</rp></ruby>.</p>",
        ),
        ("html", "The <b>speed=multi30k</b> dog", "T~he <b>s~peed=multi30k</b> d~og"),
        ("html", "<s>$10</s><b>$5</b> now", "<s>$10</s><b>$5</b> n~ow"),
        ("html", "The &lt;b&gt; tag, &amp;nbsp; too", "T~he &lt;b&gt; t~ag, &amp;nbsp; t~oo"),
        ("xml", "The &lt;b&gt;dog&lt;br/&gt;A <x/>man&lt;/b&gt;", "T~he &lt;b&gt;d~og&lt;br/&gt;A~ <x/>m~an&lt;/b&gt;"),
        ("html", "<ruby>dog<rt>woof</rt></ruby>", "<ruby>d~og<rt>w~oof</rt></ruby>"),
        ("text", "The dog\\nThe man\\Nsleeps 😀now", "T~he d~og\\nT~he m~an\\Ns~leeps 😀n~ow"),
        ("xml", "The dog<x/>The man", "T~he d~og<x/>T~he m~an"),
        (
            "xliff",
            "Java<x id='START_B'/>Script<x id='CLOSE_B'/> men",
            "<x id='START_B'/>J~avaScript<x id='CLOSE_B'/> m~en",
        ),
        ("xliff", "<bpt id='1'>&lt;</bpt>The <sc id='2'/>dog<ec startRef='2'/><ept id='1'>&gt;</ept> sleeps", None),
        ("html", "<p>A dog<sup>[citation needed]</sup>.", "<p>A~ d~og<sup>[citation n~eeded]</sup>."),
        (
            "markdown",
            "# Dog {#a .b}\n\nA man[^1] $x_1 + y$ sleeps.\n",
            "# D~og {#a .b}\n\nA~ m~an[^1] $x_1 + y$ s~leeps.\n",
        ),
        ("xml", "dog<s>2</s>; <b>H<s>2</s><b><c>Ctrl</c>+<c>C</c>? </b></b>", None),
        ("markdown", "Another\\'s dog\\... in snake\\_case.", "A~nother's d~og... i~n snake\\_case."),
        ("html", "<td><b>Total</b>5</td>", "<td><b>T~otal</b>5</td>"),
        (
            "markdown",
            "> [!NOTE]\n> The dog\n\n::: tip {.x}\nA man\n:::\n",
            "> [!NOTE]\n> T~he d~og\n\n::: tip {.x}\nA~ m~an\n:::\n",
        ),
        ("markdown", "2020\\. A dog", "2020\\. A~ d~og"),
        ("text", "The <?php x() ?> dog in <% y %>.", "T~he <?php x() ?> d~og i~n <% y %>."),
        ("text", "A {n, plural, one {<i><i><y/> </i> dog </i>, m<b>2</b> %s } other {x}}", None),
        ("markdown", "The [dog](<a b> 'x').", "T~he [d~og](<a b> 'x')."),
        ("markdown", "A [man][m].\n\n[m]: x\n", "A~ [m~an][m].\n\n[m]: x\n"),
        ("markdown", "The [man].\n\n[man]: x\n", "T~he [m~an][man].\n\n[man]: x\n"),
        ("markdown", "> The `a\n> b` dog.\n", "> T~he `a\n> b` d~og.\n"),
        (
            "html",
            "<p>A&nbsp;<!-- &nbsp; --><b id='a>b'>dog</b> &lt; man",
            "<p>A~ <!-- &nbsp; --><b id='a>b'>d~og</b> &lt; m~an",
        ),
        ("html", "<script>if (a<b) '<p>'</script><p>dog", "<script>if (a<b) '<p>'</script><p>d~og"),
        ("html", '<a href="<%= x("a") %>">dog</a>', '<a href="<%= x("a") %>">d~og</a>'),
        ("xml", "<ü x='1'>dog</ü> &#38; <![CDATA[5<6]]>", "<ü x='1'>d~og</ü> &amp; 5&lt;6"),
    ],
)
def test_markup_comes_back_as_it_was_written(kind: str, text: str, wanted: str | None) -> None:
    rebuilt = translate(text, XLIFF if kind == "xliff" else TextOptions(format=kind))  # type: ignore[arg-type]  # literals
    assert rebuilt.report["complete"] and characters(rebuilt.text) == characters(wanted or text)
    assert wanted is None or rebuilt.text == wanted


def test_xliff_1_1_is_read_and_a_slide_keeps_its_line_feeds() -> None:
    unit = "<file><body><trans-unit id='1'><source>The dog</source></trans-unit></body></file>"
    old = f'<xliff xmlns="urn:oasis:names:tc:xliff:document:1.1" version="1.1">{unit}</xliff>'
    assert [passage.text for passage in read_document("a.xlf", old.encode()).passages] == ["The dog"]
    (passage,) = read_document("a.pptx", make(".pptx", [["The dog\nThe man"]])).passages
    assert re.fullmatch(r"The dog<br [^>]*>The man", passage.text)
