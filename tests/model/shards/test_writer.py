"""Shards on disk: fixed bytes, any tool reads them, nothing half written."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.files import file_sha256, remove_parts
from dragoman.model.shards.writer import Record, finished_shard, write_shard
from dragoman.model.text.tokenizer import EOS
from tests.random_shards import random_records


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def array(data: bytes) -> np.ndarray:
    return np.load(io.BytesIO(data), allow_pickle=False)


def test_bytes_are_these_for_ever(tmp_path: Path) -> None:
    entry = write_shard(tmp_path, "train", 3, random_records(20), 100, 8, "<u2")
    assert entry.sha256 == "4eddd412c27a0704c8d2b7a3a2ad3c010f857c926bbddb263f43cb2b051304e1"
    assert entry.sha256 == file_sha256(tmp_path / "train-000003.tar")


def test_members_are_plain_tar_and_npy(tmp_path: Path) -> None:
    records = random_records(20)
    write_shard(tmp_path, "train", 3, records, 100, 8, "<u2")
    found = members(tmp_path / "train-000003.tar")
    keys = [f"000003-{chunk:04d}" for chunk in range(3)]
    kinds = ("json", "src.npy", "src_off.npy", "tgt.npy", "tgt_off.npy")
    assert list(found) == [f"{key}.{kind}" for key in keys for kind in kinds]
    assert json.loads(found["000003-0002.json"]) == {"first_id": 116, "n": 4}
    source, offsets = array(found["000003-0001.src.npy"]), array(found["000003-0001.src_off.npy"])
    assert (source.dtype.str, offsets.dtype.str, len(offsets)) == ("<u2", "<u4", 9)
    for i, (row, _) in enumerate(records[8:16]):
        assert source[offsets[i] : offsets[i + 1]].tolist() == [*row, EOS]


def test_the_entry_says_what_is_in_the_file(tmp_path: Path) -> None:
    records = random_records(20)
    entry = write_shard(tmp_path, "valid", 0, records, 7, 8, "<u4", key="made of this")
    path = tmp_path / "valid-000000.tar"
    assert (entry.name, entry.bytes, entry.records, entry.first_id) == (path.name, path.stat().st_size, 20, 7)
    assert entry.source_tokens == sum(len(source) + 1 for source, _ in records)
    assert entry.target_tokens == sum(len(target) + 1 for _, target in records if target is not None)
    assert [chunk[1] for chunk in entry.chunks] == [8, 8, 4]
    assert sum(entry.source_lengths) == sum(entry.target_lengths) == 20
    with path.open("rb") as file:
        for number, (offset, *_) in enumerate(entry.chunks):
            file.seek(offset)
            assert file.read(16) == f"000000-{number:04d}.json".encode()
    assert finished_shard(tmp_path, "valid", 0, "made of this") == entry


def test_records_without_a_target_are_stored_alone(tmp_path: Path) -> None:
    records: list[Record] = [(source, None) for source, _ in random_records(5)]
    entry = write_shard(tmp_path, "train", 0, records, 0, 8, "<u2")
    assert list(members(tmp_path / entry.name)) == ["000000-0000.json", "000000-0000.ids.npy", "000000-0000.off.npy"]
    assert entry.target_tokens == 0 and not any(entry.target_lengths)


def test_mixed_records_are_refused(tmp_path: Path) -> None:
    records = random_records(20)
    for mixed in ([*records[:2], (records[2][0], None)], [*records[:8], (records[8][0], None)]):
        with pytest.raises(ValueError, match="with and without"):
            write_shard(tmp_path, "train", 0, mixed, 0, 8, "<u2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("wrong", "dtype"), [(65_536, "<u2"), (-1, "<u2"), (2**32, "<u4")])
def test_ids_that_do_not_fit_are_refused(tmp_path: Path, wrong: int, dtype: str) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        write_shard(tmp_path, "train", 0, [(np.array([7, wrong]), np.array([7]))], 0, 8, dtype)


def test_a_failing_source_of_records_leaves_nothing_behind(tmp_path: Path) -> None:
    def failing():  # type: ignore[no-untyped-def]
        yield from random_records(9)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_shard(tmp_path, "train", 0, failing(), 0, 8, "<u2")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".part-node-123-4-train-000000.tar").write_bytes(b"half")
    (tmp_path / "train-000001.tar").write_bytes(b"other")
    remove_parts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train-000001.tar"]


def test_finished_shards_count_only_when_they_are_the_wanted_ones(tmp_path: Path) -> None:
    assert finished_shard(tmp_path, "train", 0) is None
    entry = write_shard(tmp_path, "train", 0, random_records(9), 0, 8, "<u2", key="a")
    path = tmp_path / entry.name
    assert finished_shard(tmp_path, "train", 0, key="b") is None
    data = path.read_bytes()
    changed = bytearray(data)
    changed[700] ^= 1
    path.write_bytes(changed)
    assert finished_shard(tmp_path, "train", 0, key="a") == entry
    assert finished_shard(tmp_path, "train", 0, key="a", verify=True) is None
    path.write_bytes(data[:-1])
    assert finished_shard(tmp_path, "train", 0, key="a") is None
    path.write_bytes(data)
    (tmp_path / "train-000000.json").write_text("{half")
    assert finished_shard(tmp_path, "train", 0, key="a") is None


def test_a_shard_of_no_records_is_an_empty_archive(tmp_path: Path) -> None:
    entry = write_shard(tmp_path, "train", 0, [], 0, 8, "<u2")
    assert (entry.records, entry.chunks, members(tmp_path / entry.name)) == (0, [], {})
    assert hashlib.sha256(bytes(1024)).hexdigest() == entry.sha256
