"""Headers built by hand are those that Python's and NumPy's own writers make."""

import io
import tarfile

import numpy as np
import pytest

from dragoman.model.shards.layout import npy_header, padding, tar_header


@pytest.mark.parametrize("name", ["000000-0000.json", "123456-12345.tgt_off.npy", "x" * 100])
@pytest.mark.parametrize("size", [0, 511, 8**11 - 1])
def test_tar_headers_are_tarfiles_own(name: str, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, 0, 0o644
    assert tar_header(name, size) == member.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("count", [0, 1, 4096, 10**9])
def test_npy_headers_are_understood_by_numpy(dtype: str, count: int) -> None:
    file = io.BytesIO(npy_header(np.dtype(dtype), count))
    assert np.lib.format.read_magic(file) == (1, 0)
    assert np.lib.format.read_array_header_1_0(file) == ((count,), False, np.dtype(dtype))
    assert file.tell() == 128 and file.read() == b""


@pytest.mark.parametrize(("size", "zeros"), [(0, 0), (1, 511), (512, 0), (513, 511)])
def test_members_fill_whole_blocks(size: int, zeros: int) -> None:
    assert padding(size) == zeros
