"""Text of any shape in blocks that are never larger than a bound, and lose nothing."""

import bz2
import gzip
import lzma
import random
import zipfile
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.inputs.archive import Part
from dragoman.model.inputs.lines import View, parts_of
from dragoman.pipelines.corpus.read import text_blocks
from dragoman.pipelines.corpus.read.sources import Source, TextForm
from dragoman.pipelines.corpus.read.staging import Block, blocks_of, stage, staging_tasks
from dragoman.pipelines.corpus.read.text_blocks import kept_between

MARKS = ("*** START OF", "*** END OF")


def _blocks(file: Path, scratch: Path, paragraphs: bool = False, between: tuple[str, ...] = ()) -> list[Block]:
    scratch.mkdir(exist_ok=True)
    form = TextForm(paragraphs, between=between)
    source = Source("train-0", "train", "text", (file,), ("corpus.train.file",), form=form)
    for task in staging_tasks([source], scratch):
        stage(task)
    return blocks_of([source], scratch)


def _zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _bytes(blocks: list[Block]) -> list[bytes]:
    return [block.read() for block in blocks]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 100)
    monkeypatch.setattr(text_blocks, "BLOCK_LINES", 10)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("paragraphs", [False, True])
def test_nothing_is_lost_and_no_block_is_larger(
    tmp_path: Path, small_blocks: None, pack: type[bytes], paragraphs: bool
) -> None:
    rng = random.Random(1)
    for number in range(20):
        text = "".join(rng.choices(["word ", "é", "猫", "\n", "\r\n", "\n\n", "x" * 90, "a b"], k=rng.randint(1, 80)))
        file = tmp_path / f"{number}.txt"
        file.write_bytes(pack(text.encode()))
        blocks = _blocks(file, tmp_path / f"scratch{number}", paragraphs)
        found = _bytes(blocks)
        assert b"".join(found) == text.encode()
        assert all(0 < len(data) <= 100 and data.count(b"\n") <= 10 for data in found)
        assert [data.decode() for data in found]  # no character is cut
        assert sum(block.lines for block in blocks) == text.count("\n") + (not text.endswith("\n"))
        assert [block.first_line for block in blocks] == [
            b"".join(found[:index]).count(b"\n") for index in range(len(found))
        ]


def test_paragraphs_are_not_cut_where_a_block_can_end_between_them(tmp_path: Path, small_blocks: None) -> None:
    file = tmp_path / "book"
    file.write_bytes(b"\n\n".join(b"one line\nand another" for _ in range(50)))
    for data in _bytes(_blocks(file, tmp_path / "scratch", True))[:-1]:
        assert data.endswith(b"\n\n")
    file.write_bytes(b"")
    assert _blocks(file, tmp_path / "empty") == [], "an empty file has none"


def test_members_of_an_archive_follow_each_other_and_are_named(tmp_path: Path, small_blocks: None) -> None:
    members = {"docs/a.txt": b"one\ntwo", "README": b"not text", "docs/empty.txt": b"", "docs/b.TXT": b"three\n"}
    file = _zip(tmp_path / "docs.zip", members)
    (block,) = _blocks(file, tmp_path / "scratch")
    assert block.read() == b"one\ntwo\nthree\n"
    assert block.locate(1) == f"{file}: docs/a.txt: line 2"
    assert block.locate(2) == f"{file}: docs/b.TXT: line 1"
    (block,) = _blocks(file, tmp_path / "paragraphs", True)
    assert block.read().split() == [b"one", b"two", b"three"]
    assert block.read().startswith(b"one\ntwo\n\n")
    (tmp_path / "book").write_bytes(b"licence\n\n*** START OF\nfirst\nsecond\n")
    (block,) = _blocks(tmp_path / "book", tmp_path / "marked", between=MARKS)
    assert block.locate(1).endswith("book: line 5"), "what was left out counts"


def test_broken_archives_are_named(tmp_path: Path) -> None:
    file = _zip(tmp_path / "a.zip", {"a.txt": b"text " * 1000})
    data = file.read_bytes()
    file.write_bytes(data[:-30])
    with pytest.raises(UserError, match=r"a\.zip: the zip file is damaged or truncated"):
        parts_of(file, View())
    file.write_bytes(data[:40] + bytes(8) + data[48:])
    with pytest.raises(UserError, match=r"a\.zip: a\.txt: the zip file is damaged"):
        list(parts_of(file, View())[0].blocks())
    with pytest.raises(UserError, match=r"no members whose name ends in \.txt"):
        parts_of(_zip(tmp_path / "b.zip", {"README": b""}), View())


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b"licence\n*** START OF THE BOOK\ntext\nmore\n***END OF IT\nlicence\n", b"text\nmore\n"),
        (b"\xef\xbb\xbf***START OF X\r\ntext\r\n", b"text\r\n"),
        (b"no marks\n*** END OF what\n", b"no marks\n*** END OF what\n"),
        (b"a *** START OF\n", b"a *** START OF\n"),
        (b"*** START OF", b""),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_only_what_lies_between_the_marks_is_kept(text: bytes, kept: bytes, size: int) -> None:
    part = Part("", lambda: iter([text[start : start + size] for start in range(0, len(text), size)]))
    assert b"".join(kept_between(part, MARKS)[1]) == kept
