"""`dragoman verify`: runs that were disturbed and are the same, and records that somebody has changed."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.conf.showing import as_json
from dragoman.model.ports import free_ports
from dragoman.model.runs import journal, paths
from dragoman.model.shards.manifest import manifest_hash
from dragoman.pipelines import entries
from dragoman.pipelines.loaders.pairs import LaneLoader
from tests.pipelines.training.test_loop import CONFIG, LOADER, NETWORKS, flip_last_bit, rank_process, train
from tests.random_shards import random_records, write_shards
from tests.warm import start_ranks

Table = dict[str, tuple[bool, str]]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with shards and a run on them, claimed as the task of its network does it and trained to its end."""
    folder = tmp_path_factory.mktemp("verified")
    shards, run = write_shards(folder / "shards", random_records(300)), folder / "runs" / "one"
    run.mkdir(parents=True)
    record = {
        "seed": 3,
        "shards": manifest_hash(shards),
        "model": {**NETWORKS["transformer"], "name": "tiny"},
        "loader": {key: asdict(LOADER)[key] for key in LaneLoader.of},
    }
    (run / "run.json").write_text(json.dumps(record))
    train(shards, run)
    return folder


@pytest.fixture
def run(first: Path, tmp_path: Path) -> Path:
    """The run of a copy of that folder."""
    return shutil.copytree(first, tmp_path, dirs_exist_ok=True) / "runs" / "one"


@pytest.fixture
def shards(run: Path) -> Path:
    return run.parents[1] / "shards"


@pytest.fixture
def verify(run: Path, shards: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Table]:
    """verify(code) -> what was compared: (result, detail); the verb must end with that exit code."""

    def verified(code: int = 0) -> Table:
        with as_json():
            found = entries.main(["verify", str(run), f"paths.shards={shards}"])
        printed = capsys.readouterr()
        assert found == code, printed.out + printed.err
        checks = [json.loads(line) for line in printed.out.splitlines()]
        assert all(check["same"] for check in checks) is (code == 0)
        return {check["what"]: (check["same"], check["detail"]) for check in checks}

    return verified


def dies(step: int, values: dict[str, float]) -> None:
    raise InterruptedError(f"at step {step}")


def begin_anew(run: Path) -> None:
    """Leaves of a run what says whose it is."""
    for path in run.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "run.json":
            path.unlink()


def edit(run: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    path = run / paths.STEPS
    lines = list(journal.lines(path))
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_an_undisturbed_run_is_one(shards: Path, verify: Callable[..., Table]) -> None:
    assert verify() == {
        "shards": (True, f"4 files, manifest {manifest_hash(shards)[:12]}"),
        "checkpoints": (True, "3 checkpoints, weights of 2 steps"),
        "bundle": (True, "none yet"),
        "batches": (True, "12 steps, as made again from the shards"),
    }


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
@pytest.mark.long
def test_a_killed_run_that_went_on_alone_and_on_two_workers_is_one_too(
    run: Path, shards: Path, verify: Callable[..., Table]
) -> None:
    begin_anew(run)
    with pytest.raises(InterruptedError):
        train(shards, run, replace(CONFIG, evaluate_every=7, log_every=6), report=dies)
    assert verify()["batches"][1].startswith("6 steps")
    train(shards, run, replace(CONFIG, max_steps=8))
    (port,) = free_ports(1)
    start_ranks(rank_process, (port, str(shards), str(run), CONFIG, "transformer"))
    assert verify()["batches"][1].startswith("12 steps")
    starts = [(line["step"], line["workers"]) for line in journal.lines(run / paths.STARTS)]
    assert starts == [(0, 1), (4, 1), (8, 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines.insert(5, dict(lines[4])), "line 6: step 5 follows step 5"),
        (lambda lines: lines[4].update(batch="00000000"), "step 5: the shards give other batches"),
        (lambda lines: lines[4].update(tokens=lines[4]["tokens"] + 1), "step 5: the shards give other batches"),
        (lambda lines: lines[4].pop("batch"), "line 6: step 6 follows step 4"),
        (lambda lines: lines.__delitem__(slice(8, None)), "the journal ends at step 7, and there is a checkpoint of"),
    ],
)
def test_the_first_step_of_a_changed_journal_is_named(
    change: Callable[[list[dict[str, Any]]], Any],
    message: str,
    run: Path,
    shards: Path,
    verify: Callable[..., Table],
    capsys: pytest.CaptureFixture[str],
) -> None:
    edit(run, change)
    assert verify(1)["batches"][1].startswith(message)
    assert entries.main(["verify", str(run), f"paths.shards={shards}"]) == 1
    assert f"batches      differs  {message}" in (shown := capsys.readouterr().out)
    assert shown.endswith("one: differs, first in its batches\n")


def test_a_damaged_line_is_named(run: Path, verify: Callable[..., Table]) -> None:
    path = run / paths.STEPS
    path.write_text(path.read_text().replace('{"step":5,', '{"step":5', 1))
    assert "line 5" in verify(1)["batches"][1]


@pytest.mark.parametrize(
    ("file", "what", "message"),
    [
        ("checkpoints/step-00000008/network.safetensors", "checkpoints", "{file}: does not match its manifest"),
        ("checkpoints/step-00000004/optimizer.safetensors", "checkpoints", "{file}: does not match its manifest"),
        ("weights/step-00000008.safetensors", "checkpoints", "step-00000008.safetensors: was changed after"),
        ("*.tar", "shards", ".tar: its sha256 is not the one in the manifest"),
    ],
)
def test_a_flipped_bit_is_named(
    file: str, what: str, message: str, run: Path, shards: Path, verify: Callable[..., Table]
) -> None:
    (path,) = list((shards if what == "shards" else run).glob(file))[:1]
    flip_last_bit(path)
    found = verify(1)
    assert not found[what][0] and message.format(file=path) in found[what][1]
    assert "batches" not in found if what == "shards" else found["batches"][0]


def test_mistakes_in_the_command_have_their_own_code(
    run: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = f"paths.runs={run.parent}"
    for words, message in (
        (["on", runs], "'on' is not known. Did you mean 'one'?"),
        (["one", runs, f"paths.shards={tmp_path / 'nowhere'}"], "Say where they are: paths.shards=FOLDER"),
        (["../one", runs], "name"),
    ):
        assert entries.main(["verify", *words]) == 2
        assert message in capsys.readouterr().err
    begin_anew(run)
    assert entries.main(["verify", "one", runs, f"paths.shards={shards}"]) == 0  # nothing was trained yet
