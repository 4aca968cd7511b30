"""Line ranges: only a line feed ends a line, and both sides have equally many."""

import gzip
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.read import staging
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.read.staging import blocks_of, stage, staging_tasks


def _source(folder: Path, left: bytes, right: bytes) -> Source:
    files = (folder / "a.en", folder / "a.de")
    for path, data in zip(files, (left, right), strict=True):
        path.write_bytes(data)
    return Source("train-0", "train", "moses", files, ("corpus.train.source", "corpus.train.target"))


def _staged(source: Source, scratch: Path) -> list[list[bytes]]:
    """The lines of each block's first file."""
    scratch.mkdir(exist_ok=True)
    for task in staging_tasks([source], scratch):
        stage(task)
    blocks = blocks_of([source], scratch)
    result = []
    for block in blocks:
        start, stop = block.ranges[0]
        result.append(block.plain[0].read_bytes()[start:stop].split(b"\n"))
    return result


@pytest.mark.parametrize("last", [b"", b"\n"])
def test_blocks_hold_the_lines_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bytes) -> None:
    monkeypatch.setattr(staging, "BLOCK_LINES", 7)
    for count in (1, 6, 7, 8, 14, 50):
        lines = [b"x" * (number % 5) for number in range(count - 1)] + [b"end"]
        for name, packed in (("plain", bytes), ("gz", gzip.compress)):
            data = packed(b"\n".join(lines) + last)
            blocks = _staged(_source(tmp_path, data, data), tmp_path / f"{name}{count}")
            assert [line for block in blocks for line in block if line] == [line for line in lines if line]
            assert len(blocks) == -(-count // 7)


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    data = "a\x85b\u2028c\x0bd\x0ce\x1cf\rg\nsecond\n".encode()
    blocks = _staged(_source(tmp_path, data, b"1\n2\n"), tmp_path / "scratch")
    assert len(blocks[0]) == 3  # two lines and the end


def test_unequal_line_counts_name_both_files_and_counts(tmp_path: Path) -> None:
    source = _source(tmp_path, b"1\n2\n3\n", b"1\n2\n")
    with pytest.raises(UserError, match=r"a\.en has 3 lines, but corpus.train.target: .*a\.de has 2"):
        _staged(source, tmp_path / "scratch")


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"corpus.train.source: .*a\.en: the file is empty"):
        _staged(_source(tmp_path, b"", b""), tmp_path / "scratch")
