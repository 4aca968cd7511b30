"""`dragoman translate translate.document=`: a file in, a file of its kind out, or nothing."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.settings import DecodeConfig
from dragoman.services.commands.translate import translate
from dragoman.services.settings import TranslateConfig

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
WORD = f'<w:document xmlns:w="{W}"><w:body><w:p><w:r><w:t>the dog sees</w:t></w:r></w:p></w:body></w:document>'


def write_docx(path: Path) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", WORD)
        archive.writestr("word/media/a.png", b"\x89PNG")
    return str(path)


def run(bundle: Path, output: Path, **settings: Any) -> int:
    return translate(TranslateConfig(bundle=str(bundle), output=str(output), **settings), DecodeConfig())


@pytest.mark.parametrize("key", ["document", "input"])
def test_a_document_in_is_a_document_out(tmp_path: Path, bundle: Path, key: str) -> None:
    report, out = tmp_path / "report.jsonl", tmp_path / "out.docx"
    assert run(bundle, out, **{key: write_docx(tmp_path / "in.docx")}, report=str(report)) == 0
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["word/document.xml", "word/media/a.png"]
        assert archive.read("word/media/a.png") == b"\x89PNG"
        assert b"<w:t" in archive.read("word/document.xml")
    [record] = [json.loads(row) for row in report.read_text().splitlines()]
    assert record["line"] == 0 and record["complete"] and record["sentences"] == 1


@pytest.mark.parametrize(
    ("name", "content", "output", "settings", "says"),
    [
        ("in.docx", b"PK no", "out.docx", {}, "in.docx: a damaged zip archive"),
        ("in.exe", b"MZ", "out.exe", {}, ".exe is not supported; choose from .txt"),
        ("in.md", b"dog", "out.docx", {}, "must end in .md"),
        ("in.md", b"dog", "out.md", {"input": "a.txt"}, "give a document or lines"),
        ("in.md", b"dog", "out.md", {"nbest": 2}, "one translation"),
        ("in.json", b"{", "out.json", {}, "in.json: JSON: "),
    ],
)
def test_wrong_documents_are_refused_and_leave_nothing(
    tmp_path: Path, bundle: Path, name: str, content: bytes, output: str, settings: dict[str, Any], says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as problem:
        run(bundle, tmp_path / output, document=str(tmp_path / name), **settings)
    assert says in str(problem.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_missing_document_and_a_missing_output_are_named(tmp_path: Path, bundle: Path) -> None:
    with pytest.raises(UserError, match=r"translate\.document: .*no\.md cannot be read"):
        run(bundle, tmp_path / "out.md", document=str(tmp_path / "no.md"))
    with pytest.raises(UserError, match=r"output must name"):
        translate(TranslateConfig(bundle=str(bundle), document="a.md"), DecodeConfig())
