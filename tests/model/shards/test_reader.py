"""Reading by memory map: every record, and no record of a file that is not as recorded."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.verify import verify
from dragoman.model.text.tokenizer import EOS
from tests.random_shards import MakeShards, random_records


def test_every_record_comes_back(make_shards: MakeShards) -> None:
    records = random_records(250)
    reader = ShardReader(make_shards(records), "train")
    assert (reader.records, reader.chunks) == (250, 13 + 13 + 7)
    found = [(chunk.first_id + i, *row) for chunk in reader for i, row in enumerate(chunk.rows())]
    assert [i for i, *_ in found] == list(range(250))
    for (_, source, target), (wanted_source, wanted_target) in zip(found, records, strict=True):
        assert wanted_target is not None
        assert source.tolist() == [*wanted_source, EOS] and target.tolist() == [*wanted_target, EOS]


def test_chunks_are_views_that_cannot_be_written_to(make_shards: MakeShards) -> None:
    chunk = ShardReader(make_shards(random_records(9)), "train").chunk(0)
    assert chunk.source.base is not None
    with pytest.raises(ValueError, match="read-only"):
        chunk.source[0] = 1


def test_a_reader_holds_few_shards_mapped_however_many_there_are(
    make_shards: MakeShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = make_shards(random_records(95), shard=8)
    everything = [chunk.source.tolist() for chunk in ShardReader(directory, "train")]
    monkeypatch.setattr("dragoman.model.shards.reader.MAPPED", 3)
    reader = ShardReader(directory, "train")
    kept = [reader.chunk(index) for index in range(reader.chunks)]
    again = [reader.chunk(index) for index in range(0, reader.chunks, 5)]
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8").count(str(directory))
    assert len(reader._maps) == 3 and mapped >= len(reader.entries)  # what is still looked at stays
    assert [chunk.source.tolist() for chunk in kept] == everything
    assert [chunk.source.tolist() for chunk in again] == everything[::5]
    del kept, again
    assert Path("/proc/self/maps").read_text(encoding="utf-8").count(str(directory)) <= 3


def test_monolingual_records_have_an_empty_target(make_shards: MakeShards) -> None:
    records = random_records(20)
    reader = ShardReader(make_shards([(source, None) for source, _ in records]), "train")
    rows = [source.tolist() for chunk in reader for source, target in chunk.rows() if len(target) == 0]
    assert rows == [[*source, EOS] for source, _ in records]


def test_untouched_directories_verify(make_shards: MakeShards) -> None:
    assert verify(make_shards(random_records(250))) == 4


def find(data: bytes, name: str) -> int:
    """Where the data of the member `name` begins: after its tar header and, in arrays, 128 bytes of npy header."""
    return data.index(name.encode() + b"\0") + 512


def replace(old: bytes, new: bytes) -> Callable[[bytearray], bytearray]:
    return lambda data: data.replace(old, new)


def overwrite(name: str, place: int, value: bytes) -> Callable[[bytearray], bytearray]:
    """The bytes of the array `name` from `place` on become `value`."""

    def change(data: bytearray) -> bytearray:
        at = find(data, name) + 128 + place
        return data[:at] + value + data[at + len(value) :]

    return change


def lost_end(data: bytearray) -> bytearray:
    at = find(data, "000000-0000.src.npy") + 128
    place = np.frombuffer(bytes(data[at : at + 400]), "<u2").tolist().index(EOS)
    return overwrite("000000-0000.src.npy", 2 * place, b"\7")(data)


OTHER = "not what the manifest says"


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (lambda data: data[:-512], "cut off"),
        (lambda data: data + bytes(512), "too long"),
        (replace(b"000000-0000.tgt.npy", b"000000-0000.pkl.npy"), OTHER),
        (replace(b"False", b"True "), OTHER),  # Fortran's order
        (replace(b"'<u2'", b"'|O' "), OTHER),  # objects
        (replace(b'"first_id":0', b'"first_id":8'), OTHER),
        (overwrite("000000-0000.src_off.npy", 4, (9999).to_bytes(4, "little")), "offsets"),
        (overwrite("000000-0000.src.npy", 0, (50).to_bytes(2, "little")), "id 50 is not in a vocabulary of 50"),
        (lost_end, "end-of-sentence"),
    ],
)
def test_changed_shards_are_refused_by_name(
    make_shards: MakeShards, tamper: Callable[[bytearray], bytearray], message: str
) -> None:
    directory = make_shards(random_records(9))
    path = directory / "train-000000.tar"
    path.write_bytes(tamper(bytearray(path.read_bytes())))
    with pytest.raises(UserError, match=rf"train-000000\.tar.*{message}"):
        list(ShardReader(directory, "train"))
    with pytest.raises(UserError, match=r"train-000000\.tar"):
        verify(directory)


@pytest.mark.parametrize("name", ["train-000000.tar", "tokenizer.json"])
def test_missing_files_are_named(make_shards: MakeShards, name: str) -> None:
    directory = make_shards(random_records(9))
    (directory / name).unlink()
    with pytest.raises(UserError, match=f"{name}.*missing"):
        verify(directory)
    if name.endswith(".tar"):
        with pytest.raises(UserError, match=f"{name}.*missing"):
            ShardReader(directory, "train")


def test_a_manifest_cannot_point_outside(make_shards: MakeShards) -> None:
    directory = make_shards(random_records(9))
    change_manifest(directory, lambda shard: shard.update(name="../shards/train-000000.tar"))
    for read in (lambda: ShardReader(directory, "train"), lambda: verify(directory)):
        with pytest.raises(UserError, match="outside"):
            read()


@pytest.mark.parametrize("tokens", [10**9, 3])
def test_a_manifest_that_lies_about_sizes_is_found_out(make_shards: MakeShards, tokens: int) -> None:
    directory = make_shards(random_records(9))
    change_manifest(directory, lambda shard: shard["chunks"][0].__setitem__(2, tokens))
    with pytest.raises(UserError, match=r"train-000000\.tar"):
        ShardReader(directory, "train").chunk(0)


def change_manifest(directory: Path, change: Callable[[dict], object]) -> None:
    values = json.loads((directory / "manifest.json").read_text())
    change(values["splits"]["train"]["shards"][0])
    (directory / "manifest.json").write_text(json.dumps(values))
