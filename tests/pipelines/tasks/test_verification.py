"""`dragoman verify`: runs that were disturbed and are the same, and records that somebody has changed."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.files import file_sha256
from dragoman.model.ports import free_ports
from dragoman.model.runs import checkpoints, journal, paths
from dragoman.model.shards.manifest import manifest_hash
from dragoman.pipelines import entries
from dragoman.pipelines.loaders.pairs import LaneLoader
from tests.pipelines.training.test_loop import CONFIG, LOADER, NETWORKS, flip_last_bit, rank_process, train
from tests.warm import start_ranks

Table = dict[str, tuple[str, str]]


@pytest.fixture
def shards(make_shards: Callable[..., Path], random_pairs: list[Any]) -> Path:
    return make_shards(random_pairs)


@pytest.fixture
def run(shards: Path, tmp_path: Path) -> Path:
    """The folder of a run, claimed as the task of its network does it."""
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    record = {
        "seed": 3,
        "shards": manifest_hash(shards),
        "model": {**NETWORKS["transformer"], "name": "tiny"},
        "loader": {key: asdict(LOADER)[key] for key in LaneLoader.of},
    }
    (run / "run.json").write_text(json.dumps(record))
    return run


@pytest.fixture
def verify(run: Path, shards: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Table]:
    """verify(code) -> what was compared: (result, detail); the verb must end with that exit code."""

    def verified(code: int = 0, *words: str) -> Table:
        found = entries.main(["verify", str(run), f"paths.shards={shards}", "verify.format=json", *words])
        printed = capsys.readouterr()
        assert found == code, printed.out + printed.err
        told = json.loads(printed.out)
        assert told["same"] is (code == 0) and told["run"] == "one"
        return {one["what"]: (one["result"], one["detail"]) for one in told["checks"]}

    return verified


def dies(step: int, values: dict[str, float]) -> None:
    raise InterruptedError(f"at step {step}")


def edit(run: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    path = run / paths.STEPS
    lines = list(journal.lines(path))
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_an_undisturbed_run_is_one(run: Path, shards: Path, verify: Callable[..., Table]) -> None:
    train(shards, run)
    found = verify()
    assert found["steps"] == ("same", "12, each once, their batches as replayed from the shards")
    assert found["starts"] == ("same", "1: from step 0 on 1")
    assert found["weights"] == ("same", "3 checkpoints, weights of 2 steps")
    assert found["bundle"] == ("not recorded", "there is none yet")
    assert found["shards"] == ("same", f"4 files, manifest {manifest_hash(shards)[:12]}")


@pytest.mark.filterwarnings("default")  # the other processes' warnings are torch's own
@pytest.mark.long
def test_a_killed_run_that_went_on_alone_and_on_two_workers_is_one_too(
    run: Path, shards: Path, verify: Callable[..., Table]
) -> None:
    with pytest.raises(InterruptedError):
        train(shards, run, replace(CONFIG, evaluate_every=7, log_every=6), report=dies)
    found = verify()
    assert found["steps"][1].startswith("6, each once") and found["starts"] == ("same", "1: from step 0 on 1")
    train(shards, run, replace(CONFIG, max_steps=8))
    (port,) = free_ports(1)
    start_ranks(rank_process, (port, str(shards), str(run), CONFIG, "transformer"))
    found = verify()
    assert found["steps"][0] == "same" and found["steps"][1].startswith("12, each once")
    assert found["starts"] == ("same", "1: from step 0 on 1, 2: from step 4 on 1, 3: from step 8 on 2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines.insert(5, dict(lines[4])), "step 5 stands in the journal again, in line 6 after step 5"),
        (lambda lines: lines.pop(4), "step 5 is missing: line 5 follows step 4 with 6"),
        (lambda lines: lines[4].update(batch="00000000"), "step 5: other batches than the shards give ("),
        (lambda lines: lines[3].update(batch=lines[4]["batch"]), "step 4: other batches than the shards give ("),
        (lambda lines: lines[4].update(tokens=lines[4]["tokens"] + 1), "step 5: "),
        (lambda lines: lines[4].pop("batch"), "step 5: the digest of its batches is missing"),
        (
            lambda lines: lines.__delitem__(slice(8, None)),
            "step 8 is missing: the journal ends before it, and step 12 was kept",
        ),
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
    train(shards, run)
    edit(run, change)
    result, detail = verify(1)["steps"]
    assert result == "differs" and detail.startswith(message)
    assert entries.main(["verify", str(run), f"paths.shards={shards}"]) == 1
    assert f"steps    differs       {message}" in (shown := capsys.readouterr().out)
    assert shown.endswith("one: differs, first in its steps\n")


def test_a_damaged_line_is_named(run: Path, shards: Path, verify: Callable[..., Table]) -> None:
    train(shards, run)
    path = run / paths.STEPS
    path.write_text(path.read_text().replace('{"step":5,', '{"step":5', 1))
    assert verify(1)["steps"] == ("differs", "steps.jsonl line 5 is damaged")


@pytest.mark.parametrize(
    ("file", "what", "message"),
    [
        ("checkpoints/step-00000008/network.safetensors", "weights", "{file}: does not match its manifest"),
        ("checkpoints/step-00000004/optimizer.safetensors", "weights", "{file}: does not match its manifest"),
        ("weights/step-00000008.safetensors", "weights", "step-00000008.safetensors: was changed after"),
        ("*.tar", "shards", ".tar: its sha256 is not the one in the manifest"),
    ],
)
def test_a_flipped_bit_is_named(
    file: str, what: str, message: str, run: Path, shards: Path, verify: Callable[..., Table]
) -> None:
    train(shards, run, replace(CONFIG, keep_checkpoints=1) if file.startswith("weights") else CONFIG)
    (path,) = list((shards if what == "shards" else run).glob(file))[:1]
    flip_last_bit(path)
    found = verify(1)
    assert found[what][0] == "differs" and message.format(file=path) in found[what][1]
    steps = ("not recorded", "not compared, for the shards are not what they were")
    assert found["steps"] == steps if what == "shards" else found["steps"][0] == "same"


def test_starts_that_cannot_have_been_are_named(run: Path, shards: Path, verify: Callable[..., Table]) -> None:
    train(shards, run)
    for start, message in (
        ({"attempt": 2, "step": 4, "workers": 1}, "attempt 2 after attempt 1, of 1 that were made"),
        ({"attempt": 1, "step": 0, "workers": 3}, "attempt 1 on 3 workers, which cannot share 2 lanes"),
        (
            {"attempt": 1, "step": 99, "workers": 2},
            "attempt 1 went on after step 99, but nothing was trained before it",
        ),
    ):
        first = [] if start["attempt"] == 1 else [{"attempt": 1, "step": 0, "workers": 1}]
        (run / "starts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (*first, start)))
        assert verify(1)["starts"] == ("differs", message)


def unlink_records(run: Path) -> None:
    """Take the chain out of the journal and the checkpoints, as a run from before there was one is."""
    edit(run, lambda lines: [line.pop("before") for line in lines])
    (run / paths.SAVED).unlink()
    for path in checkpoints.every(run).values():
        state = json.loads((path / "state.json").read_text())
        del state["records"]
        (path / "state.json").write_text(json.dumps(state))
        seal(path)


def seal(path: Path) -> None:
    """Make a checkpoint's manifest fit its files again."""
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"] = {name: file_sha256(path / name) for name in manifest["files"]}
    (path / "manifest.json").write_text(json.dumps(manifest))


def test_an_older_run_that_goes_on_is_a_chain_from_there_on(
    run: Path, shards: Path, verify: Callable[..., Table]
) -> None:
    train(shards, run, replace(CONFIG, max_steps=8))
    unlink_records(run)
    (run / "starts.jsonl").unlink()
    train(shards, run)
    result, detail = verify()["records"]
    assert result == "same" and detail.endswith("from line 11 on: what comes before has no chain")


def test_what_an_older_run_did_not_record_is_said_and_no_fault(
    run: Path, shards: Path, verify: Callable[..., Table]
) -> None:
    train(shards, run)
    unlink_records(run)
    (run / "starts.jsonl").unlink()
    for note in (run / "weights").glob("*.sha256"):
        note.unlink()
    edit(run, lambda lines: [line.pop("batch", None) for line in lines])
    found = verify()
    assert {found[what][0] for what in ("steps", "starts", "weights", "records")} == {"not recorded"}
    assert found["records"][1] == "no chain: the run is from before there was one"
    assert found["steps"][1] == "12, without digests: the run is from before there were any"


def test_mistakes_in_the_command_have_their_own_code(
    run: Path, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = f"paths.runs={run.parent}"
    for words, message in (
        (["on", runs], "'on' is not known. Did you mean 'one'?"),
        (["one", runs, f"paths.shards={tmp_path / 'nowhere'}"], "Say where they are: paths.shards=FOLDER"),
        (["../one", runs], "name"),
        (["one", runs, "verify.format=xml"], "verify.format: 'xml' is not known. Choices: json, text"),
    ):
        assert entries.main(["verify", *words]) == 2
        assert message in capsys.readouterr().err
    assert entries.main(["verify", "one", runs, f"paths.shards={shards}"]) == 0  # nothing was trained yet
