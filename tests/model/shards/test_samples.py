"""Members of a tar that are no files, or unpack to what they only declare."""

import io
import tarfile
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.samples import read_samples

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
