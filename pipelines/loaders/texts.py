"""The texts of shards, as a network sees them."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import EOS, Tokenizer
from dragoman.model.text.tokenizer_files import load_pair


def unpack_split(directory: Path, split: str, first: int = 0, form: str = "text") -> Iterator[tuple[str, ...]]:
    """Yields (source, target) of every record from global id `first` on; (text,) for monolingual shards, (text, labels)
    for labelled ones.
    """
    reader = ShardReader(directory, split)
    pair = load_pair(directory, reader.manifest.tokenizer)
    tokenizers = [pair.source, pair.target][: len(reader.manifest.sides)]
    for index in range(reader.chunks):
        if index + 1 < reader.chunks and reader.first_ids[index + 1] <= first:
            continue
        chunk = reader.chunk(index)
        rows = list(chunk.rows())[max(0, first - chunk.first_id) :]
        sides = [
            _format_rows(tokenizer, [record[side] for record in rows], form)
            for side, tokenizer in enumerate(tokenizers)
        ]
        yield from zip(*sides, strict=True)


def _format_rows(tokenizer: Tokenizer, rows: list, form: str) -> list[str]:  # type: ignore[type-arg]  # of any id type
    if form == "pieces":
        return [" ".join(tokenizer.pieces(row[row != EOS])) for row in rows]
    return tokenizer.decode(rows)
