"""Zip archives of office documents and books: bounded, and written again with every other member as it was."""

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from dragoman.model.inputs.archive import files_in
from dragoman.services.texts.documents.document import DocumentError

MOST_MEMBERS = 5_000
MOST_BYTES = 100 * 2**20  # unpacked, all members together
MOST_TEXT = 20 * 2**20  # of one member that is read
BLOCK = 2**16
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DAMAGES = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, OSError)


class Archive:
    """An archive in memory. Members are unpacked when they are read, never more than they say."""

    def __init__(self, content: bytes) -> None:
        """Checks the table of members, before any is unpacked."""
        with damages():
            self.zip = zipfile.ZipFile(io.BytesIO(content))
        members = self.zip.infolist()
        if len(members) > MOST_MEMBERS:
            raise DocumentError(f"{len(members):,} members in the zip archive; at most {MOST_MEMBERS:,} are allowed")
        if (size := sum(member.file_size for member in members)) > MOST_BYTES:
            raise DocumentError(f"{size:,} bytes when unpacked; at most {MOST_BYTES:,} are allowed")
        if any(
            member.compress_type not in METHODS for member in members
        ):  # others are unpacked whole, whatever they say
            raise DocumentError("a compression of the zip archive is not supported; save it anew, with deflate")
        if any(member.flag_bits & 1 for member in members):
            raise DocumentError("encrypted: save it without a password")
        if len({member.filename for member in members}) < len(members):
            raise DocumentError("a member of the zip archive is there twice")
        if {member.filename for member in members if not member.is_dir()} != {
            info.filename for info in files_in(self.zip)
        }:
            raise DocumentError("a member of the zip archive is a link or a device")

    @property
    def names(self) -> list[str]:
        """Returns the members' names, in order."""
        return self.zip.namelist()

    def read(self, name: str) -> bytes:
        """Returns a member's content."""
        try:
            size = self.zip.getinfo(name).file_size
        except KeyError:
            raise DocumentError(f"{name} is missing in the zip archive") from None
        if size > MOST_TEXT:
            raise DocumentError(f"{name} has {size:,} bytes; at most {MOST_TEXT:,} are allowed")
        with damages(), self.zip.open(name) as file:
            return b"".join(iter(partial(file.read, BLOCK), b""))  # whole, a member is unpacked beyond its size

    def write(self, changed: Mapping[str, bytes]) -> bytes:
        """Returns the archive with other content in some members; order, dates and compression stay."""
        out = io.BytesIO()
        with damages(), zipfile.ZipFile(out, "w") as target:
            target.comment = self.zip.comment
            for info in self.zip.infolist():
                member = zipfile.ZipInfo(info.filename, info.date_time)
                member.compress_type, member.external_attr = info.compress_type, info.external_attr
                member.create_system, member.comment = info.create_system, info.comment
                if info.filename in changed:
                    target.writestr(member, changed[info.filename])
                    continue
                member.file_size = info.file_size
                with self.zip.open(info) as source, target.open(member, "w") as copy:
                    while block := source.read(BLOCK):
                        copy.write(block)
        return out.getvalue()


@contextmanager
def damages() -> Iterator[None]:
    """Turns what damaged archives raise into a DocumentError."""
    try:
        yield
    except DAMAGES as problem:
        raise DocumentError(f"a damaged zip archive ({problem})") from None
