"""The parts of a corpus file: the .txt members of a zip archive one by one, or the file itself."""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from model.errors import UserError
from pipelines.corpus.compression import check_expansion, plain_blocks

MEMBERS = ".txt"  # a README beside them is no text of the corpus
_READ = 1 << 20  # bytes


@dataclass(frozen=True)
class Part:
    """One text within a file."""

    name: str  # of the member; empty where the file is the text
    blocks: Callable[[], Iterator[bytes]]  # its plain bytes, from the beginning at every call


def parts_of(path: Path) -> list[Part]:
    """The texts of a file, in the order they have in it.

    Raises:
        UserError: a damaged archive, one without .txt members, or whose members come to too much.
    """
    if not is_archive(path):
        return [Part("", lambda: plain_blocks(path))]
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename.lower().endswith(MEMBERS)]
    except zipfile.BadZipFile as problem:
        raise UserError(f"{path}: the zip file is damaged or truncated ({problem})") from problem
    if not members:
        raise UserError(f"{path}: the zip file has no members whose name ends in {MEMBERS}")
    check_expansion(path, sum(member.file_size for member in members))  # of no member more than that is ever read
    return [Part(member.filename, _reader(path, member)) for member in members]


def is_archive(path: Path) -> bool:
    """Whether the file begins as a zip archive does."""
    with path.open("rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


def _reader(path: Path, member: zipfile.ZipInfo) -> Callable[[], Iterator[bytes]]:
    def blocks() -> Iterator[bytes]:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(member) as file:
                yield from iter(lambda: file.read(_READ), b"")
        except (zipfile.BadZipFile, zlib.error, EOFError) as problem:
            raise UserError(f"{path}: {member.filename}: the zip file is damaged ({problem})") from problem
        except (RuntimeError, NotImplementedError) as problem:  # a password, a method of compression that Python lacks
            raise UserError(f"{path}: {member.filename}: cannot be unpacked ({problem})") from problem

    return blocks
