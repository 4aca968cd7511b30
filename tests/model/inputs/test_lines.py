"""Every kind of file gives its lines, or is named with what to do."""

import gzip
import json
import lzma
import stat
import zipfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from dragoman.model.errors import UserError
from dragoman.model.inputs.kinds import kind_of
from dragoman.model.inputs.lines import View, is_in_place, line_blocks, open_lines, parts_of
from dragoman.model.word_vectors.readers import read_vectors
from dragoman.services.texts.documents.archive import Archive
from dragoman.services.texts.documents.document import DocumentError

PAIR = View(("en", "de"))
TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en-US"><seg>a <bpt i="1">&lt;b></bpt>dog<ept i="1">&lt;/b></ept> runs</seg></tuv>
<tuv xml:lang="DE"><seg>ein <hi>Hund</hi>
 rennt</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>alone &amp; well</seg></tuv></tu>
</body></tmx>"""
PO = """# A catalogue.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: de\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

msgid "a dog"
msgstr "ein Hund"

msgctxt "menu"
msgid "two\\n"
"lines"
msgstr "zwei Zeilen"

msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] "%d Hund"
msgstr[1] "%d Hunde"

#, fuzzy
msgid "a cat"
msgstr "ein Hund"

msgid "a horse"
msgstr ""

#~ msgid "gone"
#~ msgstr "weg"
"""
MESSAGES = [("a dog", "ein Hund"), ("two lines", "zwei Zeilen"), ("%d dog", "%d Hund"), ("%d dogs", "%d Hunde")]


def text_of(path: Path, view: View) -> str:
    return b"".join(line_blocks(path, view)).decode()


def rows_in(path: Path, view: View = PAIR) -> list[tuple[str, str]]:
    return [(row["source"], row["target"]) for row in map(json.loads, text_of(path, view).splitlines())]


def written(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def zipped(path: Path, members: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("name", "data", "rows"),
    [
        ("a.tmx", TMX.encode(), [("a dog runs", "ein Hund rennt"), ("alone & well", "")]),
        ("b", TMX.encode("utf-16"), [("a dog runs", "ein Hund rennt"), ("alone & well", "")]),
        ("c.gz", gzip.compress(TMX.encode(), mtime=0), [("a dog runs", "ein Hund rennt"), ("alone & well", "")]),
    ],
)
def test_units_give_the_texts_of_a_pair_without_codes(
    tmp_path: Path, name: str, data: bytes, rows: list[tuple[str, str]]
) -> None:
    path = written(tmp_path / name, data)
    assert rows_in(path) == rows
    assert text_of(path, View(("de",))).splitlines() == [target for _, target in rows]


def test_a_language_that_no_unit_has_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tmx", TMX)
    with pytest.raises(UserError, match=r"a\.tmx: has no text in fr; languages: DE, en-US"):
        text_of(path, View(("en", "fr")))
    with pytest.raises(UserError, match=r"a\.tmx: is a tmx file; its languages are needed"):
        text_of(path, View())
    with pytest.raises(UserError, match=r"a\.tmx: is no whole TMX file"):
        text_of(written(path, TMX[:-40]), PAIR)


def test_a_table_or_memory_without_rows_says_so(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"en": pyarrow.array([], pyarrow.string())}), tmp_path / "a.parquet")
    for name, said in (("a.parquet", "holds no rows"), ("a.tmx", "holds no units")):
        path = tmp_path / name
        if name == "a.tmx":
            path.write_text("<tmx version='1.4'><body/></tmx>")
        with pytest.raises(UserError, match=said):
            text_of(path, View(("en",)))


def test_an_entity_reads_no_other_file(tmp_path: Path) -> None:
    secret = written(tmp_path / "secret", "secret")
    bomb = f'<!DOCTYPE tmx [<!ENTITY e SYSTEM "{secret}">]>' + TMX.partition("\n")[2].replace("dog", "&e;dog")
    assert "secret" not in text_of(written(tmp_path / "a.tmx", bomb), PAIR)


def test_tables_give_their_columns(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "id": [1, 2],
            "translation": [{"en": "a dog", "de": "ein Hund"}, {"en": "two\nlines", "de": None}],
            "text": ["x", "y"],
        }
    )
    path = tmp_path / "table"
    pyarrow.parquet.write_table(table, path)
    assert rows_in(path) == [("a dog", "ein Hund"), ("two lines", "")]
    assert rows_in(path, View(("en", "de"), ("text", "translation.de")))[0] == ("x", "ein Hund")
    assert text_of(path, View(("fr",))) == "x\ny\n", "the text of a table of one language"
    with pytest.raises(UserError, match="has no column for fr; columns: id, translation, text"):
        text_of(path, View(("en", "fr")))
    with pytest.raises(UserError, match="column id holds int, not text"):
        text_of(path, View(("en", "de"), ("id", "text")))


def test_an_archive_gives_the_member_of_a_language(tmp_path: Path) -> None:
    members = {"README": "r", "B.de-en.en": "dog\n", "B.de-en.de": "Hund\n", "B.de-en.xml": "<x/>"}
    path = zipped(tmp_path / "opus.zip", members)
    assert (text_of(path, View(("en",))), text_of(path, View(("DE",)))) == ("dog\n", "Hund\n")
    with pytest.raises(UserError, match=r"one member for fr is needed.*0 found; members: B\.de-en\.en"):
        text_of(path, View(("fr",)))


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf_16_becomes_utf_8_by_its_mark_and_is_named_without(tmp_path: Path, order: str) -> None:
    text = "мир\nĊ dog\n"  # U+010A holds the byte of a line feed
    path = written(tmp_path / "text", f"\ufeff{text}".encode(f"utf-16-{order}"))
    assert text_of(path, View()) == text
    assert not is_in_place(path)
    with open_lines(path, View()) as file:
        assert [line.decode() for line in file] == ["мир\n", "Ċ dog\n"]
    with pytest.raises(UserError, match=r"text: is no whole UTF-16: byte \d+"):
        text_of(written(path, path.read_bytes()[:-1]), View())
    with pytest.raises(UserError, match="is no text: a binary file, or UTF-16 without its mark, of which iconv"):
        kind_of(written(path, text.encode(f"utf-16-{order}")))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"%PDF-1.7 ...", "is a PDF document; save its text as plain text"),
        (bytes(257) + b"ustar\x0000", "is a tar archive"),
        (b"\xd0\xcf\x11\xe0" + bytes(12), "is no text: a binary file.*read are text, .* PO, Parquet"),
        (b"\xde\x12\x04\x95\0\0\0\0\x02\0\0\0", r"is a compiled gettext catalogue \(\.mo\); msgunfmt"),
        (gzip.compress(b"%PDF-1.7", mtime=0), "is a PDF document"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "is a Git LFS pointer.*git lfs pull"),
    ],
)
def test_what_is_not_read_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(UserError, match=f"file: {said}"):
        kind_of(written(tmp_path / "file", data))


@pytest.mark.parametrize(("member", "said"), [("[Content_Types].xml", "an Office document"), ("mimetype", "e-book")])
def test_office_documents_are_no_archives_of_text(tmp_path: Path, member: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        kind_of(zipped(tmp_path / "a.docx", {member: "x"}))


def test_padding_stands_between_streams_of_xz_and_damage_behind_the_first_is_no_end(tmp_path: Path) -> None:
    one, two = lzma.compress(b"one\n"), lzma.compress(b"two\n")
    path = tmp_path / "text.xz"
    assert text_of(written(path, one + bytes(8) + two + bytes(4)), View()) == "one\ntwo\n"
    with pytest.raises(UserError, match=r"text\.xz: the xz file is damaged"):
        text_of(written(path, one + bytes(3) + two), View())
    with pytest.raises(UserError, match=r"text\.xz: the xz file is (damaged|truncated)"):
        text_of(written(path, one + b"rest"), View())


def test_members_of_an_archive_may_be_wide_and_those_of_macos_are_none(tmp_path: Path) -> None:
    texts = {"x/Books.de-en.en": "the dog\r\n".encode("utf-16"), "x/Books.de-en.de": "der Hund\n"}
    path = zipped(tmp_path / "a.zip", {**texts, "__MACOSX/x/._Books.de-en.en": b"\0\5\x16\7"})
    assert text_of(path, View(("en",))) == "the dog\r\n"


def test_what_is_compressed_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is compressed twice, xz within gzip; unpack it once"):
        kind_of(written(tmp_path / "x.gz", gzip.compress(lzma.compress(b"a\n"))))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!DOCTYPE html><p>x", "an HTML page"),
        ('<?xml version="1.0"?><tbx/>', "XML of another kind"),
        ("1\r\n00:00:01,000 --> 00:00:02,000\r\nHi\r\n", "subtitles"),
    ],
)
def test_markup_and_subtitles_are_named_and_sentences_are_text(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        kind_of(written(tmp_path / "x", text))
    for line in ("<s> a sentence </s>\n", "1\nOne.\n", "html is a language\n", "msgid is a word\n"):
        assert kind_of(written(tmp_path / "y", line)) == "text"


def test_codes_and_entities_between_words_are_blanks(tmp_path: Path) -> None:
    sides = {
        "A dog sleeps.<ph x='1'/>The man<it/>reads.": "Ein&nbsp;Hund.<ept i='1'/><bpt i='2'/>Ein&amp;nbsp;Mann.",
        "Java<bpt i='1'/>Script<ept i='1'/>, (<ph/>M<ph/>)": "J&eacute;<ut/>",
    }
    units = "".join(
        f"<tu><tuv lang='en'><seg>{a}</seg></tuv><tuv lang='de'><seg>{b}</seg></tuv></tu>" for a, b in sides.items()
    )
    rows = rows_in(written(tmp_path / "a.tmx", f"<!DOCTYPE tmx SYSTEM 'tmx14.dtd'><tmx><body>{units}</body></tmx>"))
    assert rows == [("A dog sleeps. The man reads.", "Ein Hund. Ein Mann."), ("JavaScript, (M)", "Jé")]
    text = PO.replace("a dog", "a&nbsp;dog")
    assert rows_in(written(tmp_path / "a.po", text))[0] == ("a dog", "ein Hund")


def test_a_catalogue_gives_its_translated_messages_in_either_order(tmp_path: Path) -> None:
    path = written(tmp_path / "de.po", PO)
    assert rows_in(path) == MESSAGES
    assert rows_in(path, View(("de", "en"))) == [(target, source) for source, target in MESSAGES]
    assert text_of(path, View(("de",))).splitlines() == [target for _, target in MESSAGES]
    assert text_of(path, View(("en",))).splitlines() == [source for source, _ in MESSAGES]
    assert rows_in(written(tmp_path / "de.po.gz", gzip.compress(PO.encode()))) == MESSAGES
    latin = written(
        tmp_path / "latin.po", PO.replace("UTF-8", "ISO-8859-1").replace("ein Hund", "ein Hündchen").encode("latin-1")
    )
    assert rows_in(latin)[0] == ("a dog", "ein Hündchen")


def test_a_catalogue_without_its_language_is_a_pair_and_one_of_another_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "x.po", PO.replace('"Language: de\\n"\n', ""))
    assert rows_in(path, View(("en", "nl"))) == MESSAGES
    with pytest.raises(UserError, match=r"x\.po: its header names no Language, .*corpus=tsv"):
        text_of(path, View(("en",)))
    with pytest.raises(UserError, match=r"its translations are in de, and the pair is en-fr"):
        rows_in(written(path, PO), View(("en", "fr")))
    with pytest.raises(UserError, match=r"x\.po: is no whole PO file"):
        text_of(written(path, PO + "nonsense\n"), PAIR)


def test_an_archive_gives_its_rows_or_languages_whatever_notes_stand_beside_them(tmp_path: Path) -> None:
    notes = {"_about.txt": "by many\n", "LICENSE.txt": "free\n"}
    path = zipped(tmp_path / "x.zip", {"fra.txt": "dog\tchien\n", **notes})
    assert text_of(path, View()) == "dog\tchien\n"
    assert [part.name for part in parts_of(path, View())] == ["fra.txt"]
    zipped(path, {"train.en.txt": "dog\n", "train.fr.txt": "chien\n"})
    assert text_of(path, View(("fr",))) == "chien\n"
    with pytest.raises(UserError, match=r"2 found.*corpus=moses corpus.train.source=.*x\.zip\)"):
        text_of(path, View())


def test_members_that_are_links_or_devices_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, kind in enumerate((stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFBLK)):
            member = zipfile.ZipInfo(f"{number}.txt")
            member.external_attr = (kind | 0o644) << 16
            archive.writestr(member, "/etc/passwd")
        archive.writestr("rows.txt", "dog 1 0\nHund 0 1\n")
    assert [part.name for part in parts_of(path, View())] == ["rows.txt"]
    assert text_of(path, View()) == "dog 1 0\nHund 0 1\n"
    assert read_vectors(path).words == ["dog", "Hund"]
    with pytest.raises(DocumentError, match="a link or a device"):
        Archive(path.read_bytes())


def test_an_encrypted_member_says_what_to_do(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"a.tsv": "dog\tHund\n"})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the flag in both headers
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"x\.zip: a\.tsv: is encrypted; unpack it with its password"):
        text_of(path, View())
