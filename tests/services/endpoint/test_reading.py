"""Texts that cost much are prepared on another thread; no reader takes a text for a path, or unpacks without end."""

import os
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint import route_translator, spoken
from dragoman.services.texts.documents.archive import Archive
from dragoman.services.texts.documents.document import DocumentError
from tests.services.endpoint.conftest import Stage
from tests.services.texts.readers import READERS, read


def test_a_signal_to_the_whole_group_ends_no_process_in_the_middle() -> None:
    code = "import os, signal; from dragoman.services.subprocesses import worker as w; "
    code += "w.serve(lambda question, _: os.kill(os.getpid(), signal.SIGTERM) or question, 'it', 60)"
    said = subprocess.run([sys.executable, "-c", code], input='{"a": 1}\n', capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ['{"a": 1}']


def test_texts_that_cost_much_become_on_another_thread_what_they_become_here(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["The <b>dog</b> has 7 cats. " * 3, "<b>a</b>" * 14]
    asked = {"q": texts, "format": "html", "report": True, "terms": {"dog": "Hund"}, "alternatives": 1}
    there = stage.ask(**asked)
    assert there.status_code == 200
    with monkeypatch.context() as patch:
        for module in (route_translator, spoken):
            patch.setattr(module, "HERE", 10**6)
        assert stage.ask(**asked).json() == there.json()
    refused = stage.ask(q="<b>a" + "<i>a</i>" * 24, format="xml")
    assert (refused.status_code, refused.json()["error"][:32]) == (400, "Invalid request: XML: mismatched")
    monkeypatch.setattr(stage.translator, "one", lambda line, nbest: Translation(line, 0.0, loops=True))
    plain = ["The dog sees the man and the cat."] * 4
    monkeypatch.setattr(route_translator, "HERE", 0)  # many sentences, which the model was asked at first
    assert stage.ask(q=plain).json()["translatedText"] == plain


def false_size(method: int, packed: bytes, declared: int) -> bytes:
    """Returns a .docx whose document says another size than it has."""
    name = b"word/document.xml"
    facts = (0, 0x21, 0, len(packed), declared, len(name), 0)
    head = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, method, *facts) + name
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, method, *facts, 0, 0, 0, 0, 0) + name
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(entry), len(head) + len(packed), 0)
    return head + packed + entry + end


def test_a_member_is_unpacked_no_further_than_its_size() -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(64)) + deflate.flush()
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match="damaged"):
            Archive(false_size(8, packed, 1000)).read("word/document.xml")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [12, 14, 93])
def test_methods_that_unpack_whole_are_refused(method: int) -> None:
    with pytest.raises(DocumentError, match="a compression of the zip archive is not supported"):
        Archive(false_size(method, b"BZh9", 1000))


@pytest.mark.parametrize("name", READERS)
def test_no_reader_takes_a_text_for_a_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text('msgid "A sentence of the server."\nmsgstr ""\n')
    read(name, "a warm start")  # what is loaded when it is first needed
    asked: list[str] = []
    real = os.stat

    def stat(path: Any, **more: Any) -> os.stat_result:
        asked.append(str(path))
        return real(path, **more)

    monkeypatch.setattr(os, "stat", stat)
    watched = list[str]()
    WATCHERS.append(watched)
    try:
        for text in (str(secret), f"file://{secret}", f"{secret}\n"):
            read(name, text)
    finally:
        WATCHERS.remove(watched)
    assert not [place for place in asked + watched if str(secret) in place]


WATCHERS: list[list[str]] = []  # of files that are opened


def _watch(event: str, values: tuple[Any, ...]) -> None:
    if event == "open":
        for one in WATCHERS:
            one.append(str(values[0]))


sys.addaudithook(_watch)  # there is no way to remove one
