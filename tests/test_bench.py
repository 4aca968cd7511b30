"""The benchmarks are listed without being imported, and end with one line that scripts can read."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from bench import read_peers
from bench.__main__ import benchmarks, main
from bench.english_text import english_text
from bench.result import Result
from dragoman.model.text.batch import collate
from dragoman.model.text.tokenizer import EOS

ROOT = Path(__file__).resolve().parents[1]


def test_all_benchmarks_are_listed_with_what_they_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    for name in ("decode", "endpoint", "memory", "race", "read", "shard", "start", "train", "word2vec"):
        assert name in benchmarks()
        assert benchmarks()[name] in listed


def test_the_last_line_holds_both_figures_and_their_ratio() -> None:
    assert Result("read", 110.0, 0.5, "Mtok/s").line() == "read ours=110 peer=0.5 ratio=220"
    assert Result("memory", 380.0, 353.0, "MiB", "baseline").line() == "memory ours=380 baseline=353 ratio=1.08"


def test_the_peers_of_reading_pad_batches_as_our_loader_does() -> None:
    rng = np.random.default_rng(3)
    pairs = [tuple(np.append(rng.integers(6, 90, rng.integers(1, 9)), EOS) for _ in "st") for _ in range(50)]
    window = [[pair[side] for pair in pairs] for side in (0, 1)]
    made = list(read_peers.batches([pa.array(side) for side in window], 64, np.random.default_rng(1)))
    seen = set()
    for source, target_in, target_out in made:
        assert max(source.numel(), target_out.numel()) <= 64
        rows = [tuple(np.trim_zeros(row.numpy(), "b") for row in side) for side in (source, target_out)]
        seen |= {(tuple(a), tuple(b)) for a, b in zip(*rows, strict=True)}
        ours = collate(*rows, range(len(source)))
        assert all(
            torch.equal(a, b)
            for a, b in ((source, ours.source), (target_in, ours.target_in), (target_out, ours.target_out))
        )
    assert seen == {(tuple(a), tuple(b)) for a, b in pairs}


@pytest.mark.parametrize("real", [True, False])
def test_the_text_of_word_vectors_is_the_same_for_both_sides(tmp_path: Path, real: bool) -> None:
    if real:
        (tmp_path / "wikitext-2").mkdir()
        sentence = "One <unk> dog, two dogs; and 3 Cats! "
        (tmp_path / "wikitext-2" / "a.txt.gz").write_bytes(gzip.compress((sentence * 1000).encode()))
    made = english_text(tmp_path / "text.txt", 4000, corpora=tmp_path)
    lines = [line.split() for line in made.path.read_text(encoding="ascii").splitlines()]
    assert [len(line) for line in lines] == [1000] * 4
    assert made.real == real
    seen = [
        [made.vocabulary.words[row] if row >= 0 else "" for row in made.text.rows[a : a + 1000]]
        for a in range(0, 4000, 1000)
    ]
    assert all(a == b or a == "" for row, line in zip(seen, lines, strict=True) for a, b in zip(row, line, strict=True))
    assert (np.bincount(made.text.rows[made.text.rows >= 0]) == made.vocabulary.counts).all()
    if real:
        assert set(made.vocabulary.words) == {"one", "dog", "two", "dogs", "and", "cats"}
