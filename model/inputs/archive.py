"""Texts within a zip archive: the .txt members one by one, or the member of a language, as OPUS names them."""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.errors import UserError
from model.inputs.compression import check_expansion
from model.languages import is_language, same_language

MEMBERS = ".txt"  # a README beside them is no text of the corpus
ROWS = (".tsv", ".jsonl", ".json", ".csv", MEMBERS)  # what holds both sides of a pair
_READ = 1 << 20  # bytes


@dataclass(frozen=True)
class Part:
    """One text within a file."""

    name: str  # of the member; empty where the file is the text
    blocks: Callable[[], Iterator[bytes]]  # its plain bytes, from the beginning at every call


def members_of(path: Path, language: str = "") -> list[Part]:
    """Return the .txt members of an archive in their order; else the one of `language` (Books.de-en.de).

    Raises:
        UserError: a damaged archive, one without such members, or whose members come to too much.
    """
    found = [member for member in _infos(path) if member.filename.lower().endswith(MEMBERS)]
    if not found and language:
        found = [_of_language(path, language)]
    if not found:
        raise UserError(f"{path}: the zip file has no members whose name ends in {MEMBERS}; {_named(path)}")
    check_expansion(path, sum(member.file_size for member in found))  # of no member more than that is ever read
    return [Part(member.filename, _reader(path, member)) for member in found]


def member_blocks(path: Path, languages: Sequence[str]) -> Iterator[bytes]:
    """Yield the member of one language; of two or none, the one member that holds rows.

    Raises:
        UserError: as `members_of`, or several members that could be meant.
    """
    if len(languages) == 1:
        member = _of_language(path, languages[0])
    else:
        rows = [member for member in _infos(path) if member.filename.lower().endswith(ROWS)]
        if len(rows) != 1:
            raise UserError(
                f"{path}: one member with rows ({', '.join(ROWS)}) is needed, {len(rows)} found; {_named(path)}. "
                f"Unpack another and name it"
            )
        (member,) = rows
    check_expansion(path, member.file_size)
    return _reader(path, member)()


def _of_language(path: Path, language: str) -> zipfile.ZipInfo:
    infos = _infos(path)
    found = [member for member in infos if _is_of(member.filename, language)]
    if len(found) != 1:
        raise UserError(
            f"{path}: one member for {language} is needed, named as in Books.de-en.{language}; {len(found)} found; "
            f"{_named(path)}"
        )
    return found[0]


def _is_of(name: str, language: str) -> bool:
    ending = name.rpartition(".")[2]
    return is_language(ending) and same_language(ending, language)


def _infos(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [one for one in archive.infolist() if not one.is_dir() and not _is_of_system(one.filename)]
    except zipfile.BadZipFile as problem:
        raise UserError(f"{path}: the zip file is damaged or truncated ({problem})") from problem


def _is_of_system(name: str) -> bool:
    """Return True for what macOS puts into archives beside each file: its attributes, under the name of the file."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith("._")


def _named(path: Path) -> str:
    names = [member.filename for member in _infos(path)]
    return f"members: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"


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
