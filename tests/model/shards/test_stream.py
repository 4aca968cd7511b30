"""The same chunks one by one, and through the webdataset library."""

import io
from pathlib import Path

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.stream import StreamReader
from tests.random_shards import MakeShards, random_records


@pytest.mark.parametrize("parallel", [True, False])
def test_it_gives_what_the_memory_map_gives(make_shards: MakeShards, parallel: bool) -> None:
    records = [(source, target if parallel else None) for source, target in random_records(250)]
    directory = make_shards(records)
    mapped, streamed = list(ShardReader(directory, "train")), list(StreamReader(directory, "train"))
    assert [chunk.first_id for chunk in streamed] == [chunk.first_id for chunk in mapped]
    for ours, theirs in zip(mapped, streamed, strict=True):
        for name in ("source", "source_offsets", "target", "target_offsets"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))


# the library itself leaves its files to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_plain_webdataset_reads_the_shards(make_shards: MakeShards) -> None:
    """What docs/shards.md tells other tools to do, with nothing of ours."""
    import webdataset

    directory = make_shards(random_records(20))
    files = [str(path) for path in sorted(directory.glob("train-*.tar"))]
    data = webdataset.WebDataset(files, shardshuffle=False, empty_check=False)
    samples = list(data)
    assert [sample["__key__"] for sample in samples] == ["000000-0000", "000000-0001", "000000-0002"]
    ids = np.load(io.BytesIO(samples[0]["src.npy"]), allow_pickle=False)
    assert np.array_equal(ids, next(iter(ShardReader(directory, "train"))).source)


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_cut_off_shards_are_refused(make_shards: MakeShards, kept: float) -> None:
    directory = make_shards(random_records(50))
    path = directory / "train-000000.tar"
    reader = StreamReader(directory, "train")  # cut while it is read
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept) - 1024])
    with pytest.raises(UserError, match=r"train-000000\.tar.*(runs past the end|not what the manifest says)"):
        list(reader)


def test_changed_arrays_are_refused(make_shards: MakeShards) -> None:
    directory = make_shards(random_records(9))
    path = directory / "train-000000.tar"
    path.write_bytes(path.read_bytes().replace(b"'<u2'", b"'|O' "))
    with pytest.raises(UserError, match="not what the manifest says"):
        list(StreamReader(directory, "train"))


def test_missing_shards_are_named(make_shards: MakeShards, tmp_path: Path) -> None:
    directory = make_shards(random_records(9))
    (directory / "train-000000.tar").unlink()
    with pytest.raises(UserError, match=r"train-000000\.tar.*missing"):
        list(StreamReader(directory, "train"))
