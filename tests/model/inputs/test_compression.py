"""Every compression is unpacked, and what is cut or damaged is named."""

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from dragoman.model.errors import UserError
from dragoman.model.inputs import compression
from dragoman.model.inputs.compression import compression_of, plain_blocks
from dragoman.model.inputs.lines import View, parts_of

TEXT = "".join(f"line {number} café\n" for number in range(20_000)).encode()
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "name.txt"  # the name says nothing
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", PACKERS)
def test_a_compressed_file_reads_as_its_content_with_all_its_streams(tmp_path: Path, kind: str) -> None:
    path = _file(tmp_path, PACKERS[kind](TEXT))
    assert compression_of(path) == kind
    assert b"".join(plain_blocks(path)) == TEXT
    path = _file(tmp_path, PACKERS[kind](TEXT) + PACKERS[kind](b"the end\n"))
    assert b"".join(plain_blocks(path)) == TEXT + b"the end\n"


def test_frames_to_skip_stand_before_and_between_those_of_zstd(tmp_path: Path) -> None:
    skip = b"\x53\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"size"
    path = _file(tmp_path, skip + PACKERS["zstd"](TEXT) + skip + PACKERS["zstd"](b"the end\n") + skip)
    assert compression_of(path) == "zstd"
    assert b"".join(plain_blocks(path)) == TEXT + b"the end\n"


@pytest.mark.parametrize("kind", PACKERS)
def test_a_truncated_file_is_named(tmp_path: Path, kind: str) -> None:
    data = PACKERS[kind](TEXT)
    path = _file(tmp_path, data[: len(data) // 2])
    with pytest.raises(UserError, match=rf"name.txt: the {kind} file is truncated"):
        list(plain_blocks(path))


@pytest.mark.parametrize("kind", sorted(set(PACKERS) - {"lzma"}))  # which has no check of its content
def test_a_damaged_file_is_named(tmp_path: Path, kind: str) -> None:
    data = bytearray(PACKERS[kind](TEXT))
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    path = _file(tmp_path, bytes(data))
    with pytest.raises(UserError, match=r"name.txt: the \w+ file is (damaged|truncated)"):
        list(plain_blocks(path))


@pytest.mark.parametrize("kind", PACKERS)
def test_a_file_made_to_fill_the_disk_is_left_early(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LEAST_LIMIT", 1 << 20)
    path = _file(tmp_path, PACKERS[kind](bytes(16 << 20)))
    read = 0
    with pytest.raises(UserError, match=r"name.txt: comes to more than 0\.0 GB, 100 times its size"):
        for block in plain_blocks(path):
            read += len(block)
    assert read <= 100 * path.stat().st_size + (1 << 20)


def test_an_archive_made_to_fill_the_disk_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LEAST_LIMIT", 1 << 20)
    path = tmp_path / "texts.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"{number}.txt", bytes(1 << 19))
    with pytest.raises(UserError, match=r"texts.zip: comes to more than"):
        parts_of(path, View())


def test_plain_text_stays_what_it_is(tmp_path: Path) -> None:
    path = _file(tmp_path, TEXT)
    assert compression_of(path) == "plain"
    assert b"".join(plain_blocks(path)) == TEXT
    assert list(plain_blocks(_file(tmp_path, b""))) == []
