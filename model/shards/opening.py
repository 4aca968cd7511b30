"""The reader of a split, by `loader.reader`."""

from pathlib import Path

from dragoman.model.shards.reader import ShardReader


def open_reader(directory: Path, split: str, reader: str) -> ShardReader:
    """Opens the split by mmap or stream. Both give the same chunks."""
    if reader == "stream":
        from dragoman.model.shards.stream import StreamReader  # with the libraries of addresses

        return StreamReader(directory, split)
    return ShardReader(directory, split)
