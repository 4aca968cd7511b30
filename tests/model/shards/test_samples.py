"""Members of a tar that are no files, or unpack to what they only declare."""

import io
import tarfile
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.samples import MOST_HEADER, MOST_MEMBER, read_samples

TYPES = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)


def read(path: Path) -> list[dict[str, bytes]]:
    return [data for _, data in read_samples(path, {"txt"})]


def test_links_devices_and_pipes_are_passed_over(tmp_path: Path) -> None:
    path, secret = tmp_path / "a.tar", tmp_path / "secret.txt"
    secret.write_text("secret")
    with tarfile.open(path, "w") as tar:
        for number, kind in enumerate(TYPES):
            member = tarfile.TarInfo(f"{number}.txt")
            member.type, member.linkname, member.devmajor, member.devminor = kind, str(secret), 1, 5
            tar.addfile(member)
        member = tarfile.TarInfo("last.txt")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"dog"))
    assert read(path) == [{"txt": b"dog"}]


def test_a_sparse_member_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """10 KB that would take 1 TB of memory."""
    member = tarfile.TarInfo("a.txt")
    member.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.size": str(1 << 40),
        "GNU.sparse.map": "0,512",
    }
    member.size = 512
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(bytes(512)))
    with pytest.raises(UserError, match="sparse"):
        read(tmp_path / "a.tar")


def member(name: str, content: bytes = b"dog") -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, io.BytesIO(content)


def test_two_tars_one_after_the_other_are_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with tarfile.open(tmp_path / name, "w") as tar:
            tar.addfile(*member(f"{name}.txt", name.encode()))
    both = tmp_path / "both.tar"
    both.write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
    assert read(both) == [{"txt": b"a"}, {"txt": b"b"}]
    both.write_bytes((tmp_path / "a").read_bytes() + b"x" * 1024)
    with pytest.raises(UserError, match=r"both\.tar: not a whole tar: .* \(a block that is no header\)"):
        read(both)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_are_read_in_every_form(tmp_path: Path, form: int) -> None:
    name = "/".join(["folder"] * 20) + f"/{'é' if form != tarfile.USTAR_FORMAT else 'e'}.x.txt"
    with tarfile.open(tmp_path / "a.tar", "w", format=form) as tar:
        tar.addfile(*member(name))
    assert [key for key, _ in read_samples(tmp_path / "a.tar", {"txt"})] == [name.removesuffix(".txt")]


@pytest.mark.parametrize("kind", ["member", "pax", "long name"])
def test_a_member_or_header_larger_than_a_text_is_refused_before_it_is_read(tmp_path: Path, kind: str) -> None:
    size = (MOST_MEMBER if kind == "member" else MOST_HEADER) + 1
    info = tarfile.TarInfo("a.txt")
    info.type = {"member": tarfile.REGTYPE, "pax": tarfile.XHDTYPE, "long name": tarfile.GNUTYPE_LONGNAME}[kind]
    info.size = size
    path = tmp_path / "a.tar"
    path.write_bytes(info.tobuf(tarfile.USTAR_FORMAT))  # the rest need not be there
    with pytest.raises(UserError, match=rf"{size:,} bytes, more than"):
        read(path)
    pictures = info
    pictures.name = "a.jpg"
    if kind == "member":
        path.write_bytes(pictures.tobuf(tarfile.USTAR_FORMAT) + bytes(size + -size % 512 + 1024))
        assert read(path) == [], "what is not read may have any size"
