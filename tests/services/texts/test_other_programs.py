"""Documents of another program: it reads in the answer what it wrote into the source, in order."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.services.texts.documents.kinds import read_document
from tests.services.texts.passages import translate

PAGE = Path(__file__).resolve().parents[3] / "docs" / "texts.md"


def signs(path: Path) -> str:
    """Returns the letters and digits that pandoc reads in a document."""
    page = subprocess.run(["pandoc", "-t", "html", str(path)], check=True, capture_output=True, text=True).stdout
    return "".join(filter(str.isalnum, re.sub(r"<[^>]*>", "", page)))


@pytest.mark.long
@pytest.mark.skipif(shutil.which("pandoc") is None, reason="pandoc is not installed")
@pytest.mark.parametrize("kind", [".docx", ".odt", ".epub", ".html"])
def test_pandoc_reads_in_the_answer_what_it_wrote_into_the_source(kind: str, tmp_path: Path) -> None:
    source, answer = tmp_path / f"a{kind}", tmp_path / f"b{kind}"
    subprocess.run(["pandoc", "-s", "--metadata", "title=A page", str(PAGE), "-o", str(source)], check=True)
    document = read_document(source.name, source.read_bytes())
    answers = [translate(passage.text, passage.options) for passage in document.passages]
    assert all(rebuilt.report["complete"] for rebuilt in answers)
    answer.write_bytes(document.write([rebuilt.text for rebuilt in answers], "de"))
    assert signs(answer) == signs(source)
