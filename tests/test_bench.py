"""The benchmarks are listed without being imported, and end with one line that scripts can read."""

import ast
import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from bench import read_peers, result
from bench.__main__ import benchmarks, main
from bench.english_text import english_text
from bench.norms import by_company
from bench.quality import execute, told
from bench.quality_figures import EXPERIMENTS, Figure, markdown
from bench.result import Result, step_by_step
from bench.two_cores import at_once, corpus_overrides, two_cores
from bench.word2vec import SEGMENT, cut
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.text.batch import collate
from dragoman.model.text.tokenizer import EOS
from dragoman.model.word_vectors.learner import Text

ROOT = Path(__file__).resolve().parents[1]
BASELINE = {  # what is compared with ourselves alone
    *("endpoint_limits", "first_start", "forecasts", "hour", "jobs", "lengths"),
    *("lm_minutes", "memory", "multilingual", "networks", "nodes", "norms", "pages"),
    *("patience", "quality", "scale", "scheduling", "senses", "storage", "swaps", "transfer"),
}


def test_all_benchmarks_are_listed_with_what_they_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    for name in ("decode", "endpoint", "memory", "read", "shard", "start", "train", "word2vec"):
        assert name in benchmarks()
        assert benchmarks()[name] in listed


def test_an_unknown_benchmark_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert f"Choices: {', '.join(sorted(benchmarks()))}" in capsys.readouterr().err
    assert set(benchmarks()) > BASELINE


def test_the_last_line_holds_both_figures_and_their_ratio() -> None:
    assert Result("read", 110.0, 0.5, "Mtok/s").line() == "read ours=110 peer=0.5 ratio=220"
    assert Result("memory", 380.0, 353.0, "MiB", "baseline").line() == "memory ours=380 baseline=353 ratio=1.08"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_two_works_at_once_have_a_core_each_and_so_has_what_they_start() -> None:
    asked = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
    before, cores = os.sched_getaffinity(0), two_cores("hour")
    one, other = at_once(cores, *[lambda: subprocess.check_output(asked, text=True)] * 2)
    assert (one, other) == (f"[{cores[0]}]\n", f"[{cores[1]}]\n")
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("kind", ["layer", "batch"])
def test_the_company_of_a_text_changes_its_loss_with_batch_norm_alone(kind: Any) -> None:
    torch.manual_seed(1)
    network = DecoderOnly(DecoderOnlyConfig(width=8, heads=2, feed_forward=16, layers=1, norm_kind=kind), 40).eval()
    rows = [(torch.randint(6, 40, (length,)), torch.randint(6, 40, (length,))) for length in range(4, 44)]
    before = {name: value.clone() for name, value in network.state_dict().items()}
    losses = by_company(network, rows)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    change = losses.pop("earlier half, by another later half: change")
    spread = max(losses.values()) - min(losses.values())
    assert (spread < 1e-5 and change < 1e-5) if kind == "layer" else (spread > 0.01 and change > 1e-3)


def test_a_corpus_that_is_not_there_is_named() -> None:
    with pytest.raises(SystemExit, match=r"bench hour: --corpus=nix: there is no .*nix"):
        corpus_overrides("hour", "nix")


def test_two_works_go_on_step_by_step_and_only_their_own_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    order, now = [], [0.0]
    monkeypatch.setattr(result, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def work(name: str, steps: int, seconds: float) -> Callable[[Callable[[], None]], int]:
        def run(after_step: Callable[[], None]) -> int:
            for _ in range(steps):
                now[0] += seconds
                order.append(name)
                after_step()
            now[0] += 100.0  # what follows the last step
            return steps

        return run

    assert step_by_step(work("a", 4, 0.5), work("b", 2, 4.0)) == (2.0, 0.25)
    assert order == ["a", "b", "a", "b", "a", "a"]


def test_what_is_compared_with_ourselves_says_baseline() -> None:
    """By the module that makes the Result; those that know both have a second module for their device."""
    kinds = {
        path.stem: {"baseline" in ast.unparse(call) for call in results(path)}
        for path in sorted((ROOT / "bench").glob("*.py"))
    }
    ours = {name for name, found in kinds.items() if True in found}
    assert ours == BASELINE | {"busy", "gpu_training", "loss_curve", "word2vec"}
    assert {name for name, found in kinds.items() if False in found} >= set(benchmarks()) - BASELINE - {"drill"}


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


def test_every_small_figure_stands_on_its_page_and_its_command_in_the_list() -> None:
    listed = (ROOT / "docs" / "notes" / "small-figures.md").read_text(encoding="utf-8")
    assert markdown() in listed, "python -m bench quality --list gives the part of docs/notes/small-figures.md"
    for experiment in EXPERIMENTS.values():
        assert experiment.figures
        for figure in experiment.figures:
            assert figure.text in (ROOT / "docs" / figure.page).read_text(encoding="utf-8"), figure


def test_the_noise_of_a_figure_is_that_of_one_more_run() -> None:
    exact = Figure("f", "page.md", "9.3M", (9.3,))
    assert exact.interval == pytest.approx((9.25, 9.35))
    assert Figure("f", "page.md", "584", (584,)).interval == pytest.approx((583.5, 584.5))
    seen = (21.0, 22.0, 23.0)  # mean 22, s 1, n 3: t(2) at 97.5 % is 4.303, so 4.303 x sqrt(4/3)
    assert Figure("f", "page.md", "22.0", seen).interval == pytest.approx((22 - 4.969, 22 + 4.969), abs=1e-3)


def test_the_sizes_of_the_networks_are_those_of_the_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quality", "--quick", "parameters"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "quality ours=13 baseline=13 ratio=1"
    assert sum(line.startswith("  within") for line in lines) == 13 and "tatoeba" in lines[-3]


def test_a_figure_that_came_out_otherwise_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert not told(Figure("size", "page.md", "9.3M", (9.3,)), 9.36)
    assert "OUTSIDE size: 9.36, page.md has 9.3M (9.25 to 9.35)" in capsys.readouterr().out


def test_a_command_of_an_experiment_that_fails_ends_the_bench(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"python -c .*: why it failed"):
        execute(["python", "-c", "raise SystemExit('why it failed')"], tmp_path)


def test_an_experiment_that_is_not_known_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["quality", "parameter"])
    assert "'parameter' is not known. Choices: parameters, multi30k, tatoeba, vectors" in capsys.readouterr().err


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
