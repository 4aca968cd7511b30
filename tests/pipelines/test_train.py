"""`dragoman train` under real Ray: killed workers, killed trees, another number of workers - and still the same run."""

import json
import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.model.runs import checkpoints
from dragoman.model.runs.spool import Spool
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.verify import verify_once
from dragoman.pipelines import entries
from dragoman.pipelines.cluster.embedded_ray import AT_IMPORT
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig
from tests.pipelines.processes import finish, kill_tree, reached, start_verb, steps, wait_for
from tests.pipelines.ray_cluster import RayCluster
from tests.warm import Command

SETTINGS = [
    "corpus=everyday",
    "corpus.pairs=2000",
    "tokenizer.vocabulary=400",
    "model.width=32",
    "model.heads=2",
    "model.feed_forward=32",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "loader.batch_tokens=512",
    "train.precision=fp32",
    "train.max_steps=400",
    "train.checkpoint_every=50",
    "train.evaluate_every=200",
    "train.average_last=2",
    "decode.beam=1",
    "decode.length_penalty=1.0",
    "evaluate.sentences=20",
    "registry.register=false",
    "tracking.offline=true",
]


ALONE = "cluster.backend=local"
SHORT = [ALONE, "train.max_steps=80", "train.checkpoint_every=10", "train.evaluate_every=80"]


def start(verb: str, home: Path, *overrides: str, ray: RayCluster | None = None) -> Command:
    """The verb as a user starts it, in a session of its own."""
    return start_verb(home, verb, *SETTINGS, *overrides, ray=ray)


def here(verb: str, *overrides: str) -> int:
    """The verb in this process; its exit code."""
    return entries.main([verb, *SETTINGS, *overrides])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with shards in it, for this process and those that it starts."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(folder))
        for name, value in AT_IMPORT.items():  # another test of this process may have imported Ray
            patch.setenv(name, value)
        assert here("shard", ALONE) == 0
        yield folder


@pytest.fixture(scope="module")
def undisturbed(home: Path) -> Path:
    """The run that the disturbed ones are compared with: one process, no Ray."""
    assert here("train", "name=undisturbed", ALONE) == 0
    return home / "runs" / "undisturbed"


@pytest.fixture(scope="module")
def trained(home: Path) -> Path:
    """A short run, trained to its end."""
    assert here("train", "name=trained", *SHORT) == 0
    return home / "runs" / "trained"


def assert_same_run(run: Path, undisturbed: Path) -> None:
    ours, theirs = steps(run), steps(undisturbed)
    assert [line["step"] for line in ours] == list(range(1, 401))
    assert [line["batch"] for line in ours] == [line["batch"] for line in theirs]
    for mine, other in zip(ours[:50], theirs[:50], strict=True):
        assert mine["loss"] == pytest.approx(other["loss"], rel=1e-4)
    # rounding differs between one and two ranks and grows with the steps: noise, not another run
    assert ours[-1]["loss"] == pytest.approx(theirs[-1]["loss"], rel=0.02)


@pytest.mark.long
def test_a_killed_worker_is_replaced_and_the_run_is_the_same(home: Path, undisturbed: Path, ray: RayCluster) -> None:
    run = home / "runs" / "worker"
    process = start("train", home, "name=worker", "cluster.workers=2", ray=ray)
    wait_for(reached(run, 120), process)
    ray.workers()[0].kill()
    finish(process)
    assert int((run / "attempt").read_text()) == 2
    assert_same_run(run, undisturbed)


@pytest.mark.long
def test_a_killed_tree_goes_on_with_another_number_of_workers(home: Path, undisturbed: Path, ray: RayCluster) -> None:
    run = home / "runs" / "tree"
    process = start("train", home, "name=tree", "cluster.workers=2", ray=ray)
    wait_for(reached(run, 80), process)
    kill_tree(process, ray)
    process = start("train", home, "name=tree", "cluster.workers=1", ray=ray)
    wait_for(reached(run, 170), process)
    kill_tree(process, ray)
    out = finish(start("train", home, "name=tree", "cluster.workers=2", ray=ray))
    assert "goes on to step 400" in out
    assert_same_run(run, undisturbed)
    out = finish(start("verify", home, "name=tree"))
    assert "400 steps, as made again from the shards" in out and "tree: nothing differs" in out


@pytest.mark.parametrize(
    ("backend", "number", "code"),
    [
        pytest.param("ray", signal.SIGINT, 130, marks=pytest.mark.long),
        pytest.param("ray", signal.SIGTERM, 143, marks=pytest.mark.long),
        ("local", signal.SIGTERM, 143),
    ],
)
def test_a_signal_keeps_the_next_step_and_ends_the_run_killed(
    home: Path, backend: str, number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{backend}{code}"
    run = home / "runs" / name
    process = start("train", home, f"name={name}", f"cluster.backend={backend}", "train.max_steps=100000")
    wait_for(reached(run, 2), process)
    if backend == "local":  # while it is alive, another training of it is refused
        process.send_signal(signal.SIGSTOP)
        assert here("train", f"name={name}", ALONE) == 2
        assert f"this run is being trained already, by process {process.pid} on " in capsys.readouterr().err
        process.send_signal(signal.SIGCONT)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: workers get it too
    else:
        process.send_signal(number)
    out = finish(process, code)
    kept = checkpoints.newest(run)
    assert kept is not None and checkpoints.state(kept)["step"] == steps(run)[-1]["step"]
    assert (
        f"interrupted ({number.name}); {kept} is kept, and the same command goes on from there" in out.splitlines()[-1]
    )
    assert "Traceback" not in out and "SIGABRT" not in out
    assert [one.fields["status"] for one in Spool(run).records() if one.kind == "status"][-1] == "KILLED"


def test_a_finished_run_is_not_trained_again(trained: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = (trained / "steps.jsonl").read_bytes()
    bundle = (trained / "bundle" / "model.safetensors").stat().st_mtime_ns
    caplog.set_level(logging.INFO)
    assert here("train", "name=trained", *SHORT) == 0
    assert "is trained to its end" in caplog.text
    assert (trained / "steps.jsonl").read_bytes() == before
    assert (trained / "bundle" / "model.safetensors").stat().st_mtime_ns == bundle


def test_a_release_says_where_everything_is(trained: Path) -> None:
    bundle = json.loads((trained / "bundle" / "config.json").read_text())
    assert bundle["pair"] == "en-de"
    assert bundle["weights"]["steps"] == [70, 80]
    assert bundle["scores"]["test"]["lines"]["bleu"].startswith("BLEU|nrefs:1")


def test_a_signal_ends_the_final_evaluation(home: Path, trained: Path) -> None:
    before = (trained / "evaluation.test.json").stat().st_mtime_ns
    process = start("train", home, "name=trained", *SHORT, "decode.beam=64", "evaluate.sentences=0")
    assert process.stdout is not None
    while "is of these weights already" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out = finish(process, 130)
    assert (trained / "evaluation.test.json").stat().st_mtime_ns == before
    assert "interrupted (SIGINT); " in out.splitlines()[-1] and "Traceback" not in out
    assert [one.fields["status"] for one in Spool(trained).records() if one.kind == "status"][-1] == "KILLED"


def damage_first_chunk_of_rank_1(shards: Path) -> Path:
    """In place, at the file's old time: whoever has read it before takes it for read. The damaged file."""
    reader = ShardReader(shards, "train")
    loader = LaneLoader(reader, LoaderConfig(lanes=2, batch_tokens=512), seed=1, rank=1, world=2)
    shard, chunk = reader.locations[loader.chunks_of(0, 1)[0]]
    file = shards / reader.entries[shard].name
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    with file.open("r+b") as stream:
        stream.seek(reader.entries[shard].chunks[chunk][0])
        stream.write(b"?")
    os.utime(file, ns=times)
    return file


@pytest.mark.parametrize("backend", [pytest.param("ray", marks=pytest.mark.long), "local"])
def test_a_damaged_shard_that_one_rank_meets_ends_the_run_by_name(
    home: Path, tmp_path: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    ray: RayCluster | None = request.getfixturevalue("ray") if backend == "ray" else None
    shards = Path(shutil.copytree(home / "shards", tmp_path / "shards")) / "everyday-en-de-bpe"
    verify_once(shards, tmp_path / "verified")
    file = damage_first_chunk_of_rank_1(shards)
    words = (f"cluster.backend={backend}", "cluster.workers=2")
    out = finish(start("train", tmp_path, *words, ray=ray), code=2)
    assert f"{file}: " in out.splitlines()[-1] and "is not what the manifest says" in out.splitlines()[-1]
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["cluster.workers=2", "loader.lanes=3"], "Choices: cluster.workers=1|3, or for a new run loader.lanes=2|4|6"),
        (["cluster.workers=8", "cluster.device=cuda", "loader.lanes=8"], "torch sees no GPU here"),
        (["name=trained", "seed=2"], "seed was 1, is 2"),
        (["pair=en-fr"], "no shards"),
        (["model.heads=5"], "model.heads=5: must divide model.width=32"),
        (["train.final_weights=ema"], "train.optimizer.ema_decay"),
    ],
)
def test_mistakes_are_refused_before_anything_starts(
    trained: Path, overrides: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here("train", "name=refused", *overrides) == 2
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said
