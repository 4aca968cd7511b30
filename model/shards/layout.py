"""The bytes of a shard: names, tar headers, npy headers. Writer and reader both build them; the reader compares.

A shard is a plain ustar archive; a sample is a chunk of records under the key `{shard:06d}-{chunk:04d}`:
`.json` {"first_id", "n"}, then a packed array and its offsets for each side. Everything is fixed - integer mtime 0, no
owner, version 1.0 npy headers of 128 bytes - so equal records give equal bytes with any version of Python and NumPy.
"""

import tarfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import canonical_json

FORMAT_VERSION = 2  # of a manifest
BLOCK = 512  # of a tar archive, bytes
NPY_HEADER = 128  # bytes before the data of every array
OFFSET_DTYPE = np.dtype("<u4")
PARALLEL = ("src", "tgt")  # member names of the two sides
END = b"\0" * (2 * BLOCK)


def shard_name(split: str, index: int) -> str:
    return f"{split}-{index:06d}.tar"


def sidecar_name(shard: str) -> str:
    """Returns the file name of the record beside the shard."""
    return shard.removesuffix(".tar") + ".json"


def chunk_key(index: int, chunk: int) -> str:
    """Returns the key of a chunk's members, without a dot, where WebDataset would split it."""
    return f"{index:06d}-{chunk:04d}"


def side_members(kind: str) -> list[tuple[str, str]]:
    """Returns the member extensions of a chunk's sides: (ids, offsets)."""
    if kind == "monolingual":
        return [("ids.npy", "off.npy")]
    return [(f"{side}.npy", f"{side}_off.npy") for side in PARALLEL]


def tar_header(name: str, size: int) -> bytes:
    """Returns the ustar header, 512 bytes, of a member of `size` bytes."""
    head, tail = _tar_template(len(name))
    fields = name.encode("ascii") + head + b"%011o" % size + tail[0]
    checksum = sum(fields) + tail[2]
    return fields + b"%06o\0 " % checksum + tail[1]


@lru_cache(maxsize=64)
def _tar_template(name_length: int) -> tuple[bytes, tuple[bytes, bytes, int]]:
    """Returns the fixed parts of a header: between name and size, up to the checksum, after it, and their sum."""
    member = tarfile.TarInfo("x" * name_length)
    member.size, member.mtime, member.mode = 0, 0, 0o644
    whole = member.tobuf(tarfile.USTAR_FORMAT)
    after = whole[156:]
    return whole[name_length:124], (whole[135:148], after, sum(after) + 8 * ord(" "))


def padding(size: int) -> int:
    """Returns the number of zero bytes after a member of `size` bytes."""
    return -size % BLOCK


@lru_cache(maxsize=1024)
def npy_header(dtype: np.dtype[Any], count: int) -> bytes:
    """Returns magic, version and header, 128 bytes, of a 1-D array of `count` numbers (numpy.lib.format 1.0)."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({count},), }}".encode("latin-1")
    length = NPY_HEADER - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


def chunk_record(first_id: int, records: int, part: str = "") -> bytes:
    """Returns the `.json` member; `part`: the corpus of a mix that the records come from."""
    return canonical_json({"first_id": first_id, "n": records, **({"part": part} if part else {})})


def checked_name(directory: Path, name: str) -> Path:
    """Returns the path of that name in the directory; raises UserError if it leads outside."""
    path = directory / name
    if path.parent != directory or name in ("", ".", ".."):
        raise UserError(f"{path}: the manifest names a file outside of its directory")
    return path
