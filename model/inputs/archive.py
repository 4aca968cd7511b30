"""Texts in a zip archive: the .txt members one by one, or the member of one language, named as OPUS does."""

import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dragoman.model.errors import UserError
from dragoman.model.inputs.compression import check_expansion
from dragoman.model.languages import is_language, same_language

MEMBERS = ".txt"
NOTES = re.compile(r"(?i)_.*|(readme|licen[cs]e|copying|citation|about)\b.*")  # names of what is no text of the corpus
ROWS = (".tsv", ".jsonl", ".json", ".csv", MEMBERS)  # files that hold both sides of a pair
ENCRYPTED = 1  # bit of a member's flags (APPNOTE 4.4.4)
_READ, _READ_PACKED = 1 << 20, 1 << 13  # bytes; 8 KiB of bzip2 or LZMA expand to some 160 MB at most


@dataclass(frozen=True)
class Part:
    """One text within a file."""

    name: str  # of the member; empty where the file is the text
    blocks: Callable[[], Iterator[bytes]]  # its plain bytes, from the beginning at every call


def members_of(path: Path, language: str = "") -> list[Part]:
    """Returns the .txt members of an archive in their order, or the one of `language` (Books.de-en.de)."""
    members = [member for member in _list_members(path) if member.filename.lower().endswith(MEMBERS)]
    if not members and language:
        members = [_find_member(path, language)]
    if not members:
        raise UserError(f"{path}: the zip file has no members whose name ends in {MEMBERS}; {_list_names(path)}")
    check_expansion(path, sum(member.file_size for member in members))  # no more than this is ever read of a member
    return [Part(member.filename, _reader(path, member)) for member in members]


def member_blocks(path: Path, languages: Sequence[str]) -> Iterator[bytes]:
    """Yields the member of one language; for two or none, the only member that holds rows."""
    if len(languages) == 1:
        member = _find_member(path, languages[0])
    else:
        members = _list_members(path)
        rows = [member for member in members if member.filename.lower().endswith(ROWS)]
        if len(rows) != 1:
            sides = sum(is_language(_ending(member.filename)) for member in members)
            both = (
                f"For members of a language each, name it as source and as target "
                f"(corpus=moses corpus.train.source={path} corpus.train.target={path})"
            )
            raise UserError(
                f"{path}: one member with rows ({', '.join(ROWS)}) is needed, {len(rows)} found; {_list_names(path)}. "
                f"{both if sides > 1 else 'Unpack it and name one'}"
            )
        (member,) = rows
    check_expansion(path, member.file_size)
    return _reader(path, member)()


def _find_member(path: Path, language: str) -> zipfile.ZipInfo:
    infos = _list_members(path)
    ends = [(member, _ending(member.filename)) for member in infos]
    members = [member for member, end in ends if is_language(end) and same_language(end, language)]
    if len(members) != 1:
        raise UserError(
            f"{path}: one member for {language} is needed, named as in Books.de-en.{language} or "
            f"train.{language}.txt; {len(members)} found; {_list_names(path)}"
        )
    return members[0]


def _ending(name: str) -> str:
    """Returns what a member's name ends in, apart from .txt: the language in `Books.de-en.de` and `train.de.txt`."""
    return name.removesuffix(MEMBERS).rpartition(".")[2]


def files_in(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Returns the members that are files: a link has a path for its content."""
    modes = ((info, stat.S_IFMT(info.external_attr >> 16)) for info in archive.infolist())
    return [info for info, mode in modes if mode in (0, stat.S_IFREG) and not info.is_dir()]


def _list_members(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [member for member in files_in(archive) if not _is_beside(member.filename)]
    except zipfile.BadZipFile as problem:
        raise UserError(f"{path}: the zip file is damaged or truncated ({problem})") from problem


def _is_beside(name: str) -> bool:
    """Returns True for notes, and for the files that macOS adds to archives: attributes, under the name of the file."""
    own = name.rpartition("/")[2]
    return name.startswith("__MACOSX/") or own.startswith("._") or NOTES.fullmatch(own) is not None


def _list_names(path: Path) -> str:
    names = [member.filename for member in _list_members(path)]
    return f"members: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"


def unpacked(file: IO[bytes], member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yields an opened member in pieces, small ones where a method unpacks each piece whole, whatever its size."""
    small = member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    yield from iter(lambda: file.read(_READ_PACKED if small else _READ), b"")


def _reader(path: Path, member: zipfile.ZipInfo) -> Callable[[], Iterator[bytes]]:
    def blocks() -> Iterator[bytes]:
        if member.flag_bits & ENCRYPTED:
            raise UserError(f"{path}: {member.filename}: is encrypted; unpack it with its password and name the file")
        try:
            with zipfile.ZipFile(path) as archive, archive.open(member) as file:
                yield from unpacked(file, member)
        except (zipfile.BadZipFile, zlib.error, EOFError) as problem:
            raise UserError(f"{path}: {member.filename}: the zip file is damaged ({problem})") from problem
        except (RuntimeError, NotImplementedError) as problem:  # a compression method that Python lacks
            raise UserError(f"{path}: {member.filename}: cannot be unpacked ({problem})") from problem

    return blocks
