"""Every kind of file gives its lines, or is named with what to do."""

import gzip
import json
import lzma
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from dragoman.model.errors import UserError
from dragoman.model.inputs.kinds import kind_of
from dragoman.model.inputs.lines import View, is_in_place, line_blocks, open_lines, parts_of, text_lines
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
XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en" target-language="de"><body><trans-unit id="1"><source>a <g id="1">dog</g><x id="2"/></source>
<target>ein <g id="1">Hund</g></target></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de"><file id="f">
<unit id="1"><segment><source>a <pc id="1">dog</pc></source><target>ein Hund</target></segment></unit></file></xliff>"""


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
        ("d.xlf", XLIFF_1.encode(), [("a dog", "ein Hund")]),
        ("e.xliff", XLIFF_2.encode(), [("a dog", "ein Hund")]),
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


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_tables_give_their_columns(tmp_path: Path, kind: str) -> None:
    table = pyarrow.table(
        {
            "id": [1, 2],
            "translation": [{"en": "a dog", "de": "ein Hund"}, {"en": "two\nlines", "de": None}],
            "text": ["x", "y"],
        }
    )
    path = tmp_path / "table"
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        new = pyarrow.ipc.new_file if kind == "file" else pyarrow.ipc.new_stream
        with new(str(path), table.schema) as writer:
            writer.write_table(table)
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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_become_utf_8(tmp_path: Path, encoding: str) -> None:
    text = "мир\nĊ dog\n"  # U+010A holds the byte of a line feed
    path = written(tmp_path / "text", text.encode(encoding))
    view = View() if encoding in ("utf-16", "utf-32") else View(encoding=encoding)
    assert text_of(path, view) == text
    assert not is_in_place(path, view)
    with open_lines(path, view) as file:
        assert [line.decode() for line in file] == ["мир\n", "Ċ dog\n"]
    with pytest.raises(UserError, match=r"text: is no whole UTF-\S+: byte \d+"):
        text_of(written(path, path.read_bytes()[:-1]), view)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"%PDF-1.7 ...", "is a PDF document; save its text as plain text"),
        (bytes(257) + b"ustar\x0000", "is a tar archive"),
        (b"\xd0\xcf\x11\xe0 doc", "is an old Office document"),
        (b"7z\xbc\xaf\x27\x1c", "is a 7-Zip archive"),
        (gzip.compress(b"%PDF-1.7", mtime=0), "is a PDF document"),
        (b"\x04\x22\x4d\x18 lz4", r"is an LZ4 file; unpack it \(lz4 -d\)"),
        (b"\x1f\x9d\x90 compress", "is a file of compress"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "is a Git LFS pointer.*git lfs pull"),
        (b"\x93NUMPY\x01\0", "is a NumPy array"),
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


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_carriage_returns_alone_end_lines_too(tmp_path: Path, pack: Callable[[bytes], bytes], encoding: str) -> None:
    path = written(tmp_path / "mac", pack("one\rtwo\rthree\r".encode(encoding)))
    assert not is_in_place(path, View())
    assert text_of(path, View()) == "one\ntwo\nthree\n"
    dos = written(tmp_path / "dos", "a\r\nb \rc\r\n")
    assert is_in_place(dos, View()) and text_of(dos, View()) == "a\r\nb \rc\r\n"


def test_a_carriage_return_and_line_feed_in_two_blocks_are_one_end() -> None:
    blocks = [b"a\rb\r", b"\nc\r", b"d"]
    assert b"".join(text_lines(blocks, "", Path("f"))) == b"a\nb\nc\nd"


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("width", [16, 32])
def test_the_advice_for_a_file_without_its_mark_reads_it(tmp_path: Path, width: int, order: str) -> None:
    text = "собака\ndog\n犬\n" * 9
    path = written(tmp_path / "wide", text.encode(f"utf-{width}-{order}"))
    with pytest.raises(UserError) as refused:
        kind_of(path)
    advice = re.search(r"corpus\.encoding=(\S+)", str(refused.value))
    assert advice is not None
    assert text_of(path, View(encoding=advice[1])) == text
    with pytest.raises(UserError, match=f"begins with no byte order mark; corpus.encoding=utf-{width}-le or"):
        text_of(path, View(encoding=f"utf-{width}"))


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
        ('<srcset setid="x">\n<seg>x</seg>', "a test set in SGML"),
        ('<?xml version="1.0"?><tbx/>', "XML of another kind"),
        ("1\r\n00:00:01,000 --> 00:00:02,000\r\nHi\r\n", "subtitles"),
        ('# a\nmsgid "a"\nmsgstr "b"\n', "a gettext catalogue"),
    ],
)
def test_markup_and_subtitles_are_named_and_sentences_are_text(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        kind_of(written(tmp_path / "x", text))
    for line in ("<s> a sentence </s>\n", "1\nOne.\n", "html is a language\n", "msgid is a word\n"):
        assert kind_of(written(tmp_path / "y", line)) == "text"


def test_units_are_found_whatever_prefix_their_elements_have(tmp_path: Path) -> None:
    unit = "<a:trans-unit id='1'><a:source>dog</a:source><a:target>Hund</a:target></a:trans-unit>"
    xliff = (
        "<a:xliff version='1.2' xmlns:a='urn:oasis:names:tc:xliff:document:1.2'>"
        f"<a:file source-language='en' target-language='de'><a:body>{unit}</a:body></a:file></a:xliff>"
    )
    assert text_of(written(tmp_path / "a.xlf", xliff), View(("en", "de"), rows="tsv")) == "dog\tHund\n"


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
