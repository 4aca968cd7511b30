"""The benchmarks are listed without being imported, and end with one line that scripts can read."""

import ast
import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from bench import race_training, read_peers
from bench.__main__ import benchmarks, main
from bench.english_text import english_text
from bench.race import Point, seconds_to
from bench.result import Result
from bench.word2vec import SEGMENT, cut
from dragoman.model.text.batch import collate
from dragoman.model.text.tokenizer import EOS
from dragoman.model.word_vectors.learner import Text

ROOT = Path(__file__).resolve().parents[1]
BASELINE = {"jobs", "lengths", "memory"}  # what is compared with ourselves alone


def test_all_benchmarks_are_listed_with_what_they_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    for name in ("decode", "endpoint", "memory", "race", "read", "shard", "start", "train", "word2vec"):
        assert name in benchmarks()
        assert benchmarks()[name] in listed


def test_an_unknown_benchmark_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert f"Choices: {', '.join(sorted(benchmarks()))}" in capsys.readouterr().err
    assert set(benchmarks()) > BASELINE


def test_the_last_line_holds_both_figures_and_their_ratio() -> None:
    assert Result("read", 110.0, 0.5, "Mtok/s").line() == "read ours=110 peer=0.5 ratio=220"
    assert Result("memory", 380.0, 353.0, "MiB", "baseline").line() == "memory ours=380 baseline=353 ratio=1.08"


def test_what_is_compared_with_ourselves_says_baseline() -> None:
    """By the module that makes the Result; those that know both have a second module for their device."""
    kinds = {
        path.stem: {"baseline" in ast.unparse(call) for call in results(path)}
        for path in sorted((ROOT / "bench").glob("*.py"))
    }
    ours = {name for name, found in kinds.items() if True in found}
    assert ours == BASELINE | {"busy", "gpu_training", "loss_curve"}
    assert {name for name, found in kinds.items() if False in found} >= set(benchmarks()) - BASELINE


def results(path: Path) -> list[ast.Call]:
    """The places where a module makes a Result."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Result"]


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


def test_segments_of_a_text_are_whole_records_and_cover_it() -> None:
    size = 2 * SEGMENT + 3000
    text = Text(np.arange(size, dtype=np.int32), np.arange(0, size + 1, 1000))
    parts = list(cut(text, size))
    assert [len(part) for part in parts] == [SEGMENT, SEGMENT, 3000]
    assert (np.concatenate([part.rows for part in parts]) == text.rows).all()
    assert all(part.offsets[0] == 0 and part.offsets[-1] == len(part) for part in parts)


STAYING = """
import sys, tempfile, time, types
import bench.__main__ as command

def run(quick, args):
    with tempfile.TemporaryDirectory() as folder:
        print(folder, flush=True)
        time.sleep(600)

sys.modules["bench.staying"] = types.SimpleNamespace(run=run)
command.benchmarks = lambda: {"staying": ""}
command.main(["staying"])
"""


def test_a_benchmark_that_is_terminated_takes_back_what_it_made() -> None:
    with subprocess.Popen([sys.executable, "-c", STAYING], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        process.terminate()
    assert process.returncode == 143
    assert not folder.exists()


def test_a_race_counts_to_the_first_point_at_a_mark() -> None:
    curve = [Point(10.0, 20.0), Point(20.0, 36.0), Point(30.0, 34.0), Point(40.0, 41.0)]
    assert [seconds_to(mark, curve) for mark in (35.0, 41.0, 42.0)] == [20.0, 40.0, None]


def test_what_a_race_leaves_out_does_not_count() -> None:
    now = [100.0]
    clock = race_training.Clock(lambda: now[0])
    now[0] += 5.0
    clock.count()
    now[0] += 7.0
    clock.skip()
    now[0] += 1.0
    clock.count()
    assert clock.seconds == 6.0
