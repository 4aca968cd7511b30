"""`dragoman train` of word vectors: killed at any moment, alone or under Ray, and still the same run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.model.runs import checkpoints, journal, paths
from dragoman.pipelines import entries
from dragoman.pipelines.cluster.embedded_ray import AT_IMPORT
from dragoman.pipelines.training import checkpoint
from tests.pipelines.processes import finish, kill_tree, start_verb, wait_for
from tests.pipelines.ray_cluster import RayCluster
from tests.warm import Command

TEXT = [
    "corpus=everyday",
    "corpus.pairs=2000",
    "tokenizer=words",
    "tracking.offline=true",
    "tracking.system_metrics=false",
    "registry.register=false",
    "vectors.evaluate.pictures=false",
]
SETTINGS = [
    "model=skipgram",
    "model.width=16",
    "model.sample=0",
    "model.min_count=2",
    "vectors.side=source",
    "vectors.threads=1",
    "vectors.epochs=30",
    "vectors.segment_words=1000",
    "vectors.checkpoint_every=20",
    "vectors.log_every=5",
]
ALONE = "cluster.backend=local"


def train(home: Path, *overrides: str, ray: RayCluster | None = None) -> Command:
    """The verb as a user starts it, in a session of its own."""
    return start_verb(home, "train", *TEXT, *SETTINGS, *overrides, ray=ray)


def here(verb: str, *overrides: str) -> None:
    """The verb in this process, to its end."""
    assert entries.main([verb, *TEXT, *overrides, ALONE]) == 0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with shards in it, for this process and those that it starts."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(folder))
        here("shard")
        yield folder


@pytest.fixture(scope="module")
def undisturbed(home: Path) -> Path:
    """The run that the disturbed ones are compared with: one process, no Ray."""
    here("train", *SETTINGS, "name=undisturbed")
    return home / "runs" / "undisturbed"


def tables(run: Path) -> dict[str, torch.Tensor]:
    newest = checkpoints.newest(run)
    assert newest is not None
    return checkpoint.read(newest)[0]["tables"]


def lines(run: Path) -> list[dict[str, Any]]:
    return list(journal.lines(run / paths.STEPS))


def epoch_losses(run: Path) -> list[float]:
    return [line["epoch_loss"] for line in lines(run) if "epoch_loss" in line]


def reached(run: Path, epoch: int) -> Callable[[], bool]:
    return lambda: len(epoch_losses(run)) >= epoch


def test_a_killed_run_goes_on_to_the_same_bits(home: Path, undisturbed: Path) -> None:
    run = home / "runs" / "killed"
    process = train(home, "name=killed", ALONE)
    wait_for(reached(run, 10), process)
    kill_tree(process)
    assert "goes on in epoch" in finish(train(home, "name=killed", ALONE))
    assert epoch_losses(run) == epoch_losses(undisturbed)
    for name, table in tables(run).items():
        assert torch.equal(table, tables(undisturbed)[name])


@pytest.mark.long
def test_workers_and_trees_are_killed_and_the_number_of_workers_changes(
    home: Path, undisturbed: Path, ray: RayCluster
) -> None:
    run = home / "runs" / "elastic"
    process = train(home, "name=elastic", "cluster.workers=2", ray=ray)
    wait_for(reached(run, 3), process)
    ray.workers()[0].kill()
    wait_for(lambda: (run / "attempt").read_text() == "2" and reached(run, 8)(), process)
    kill_tree(process, ray)
    here("train", *SETTINGS, "name=elastic")
    words = [sum(line.get("tokens", 0) for line in lines(one)) for one in (run, undisturbed)]
    assert words[0] == words[1]
    assert entries.main(["verify", "elastic"]) == 0
    assert epoch_losses(run)[-1] == pytest.approx(epoch_losses(undisturbed)[-1], rel=0.05)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["vectors.side=null"], "vectors.side: the shards are of pairs of sentences (en-de)"),
        (["registry.register=true"], "translation model; word vectors need one of their own"),
        (["model.min_count=100000"], "model.min_count=100000: no word of the training text"),
        (["name=undisturbed", "model.negatives=3"], "model.negatives was 5, is 3"),
        (["vectors.segment_words=1000000", "cluster.workers=2", "cluster.backend=ray"], "an epoch has only 1 segments"),
        (["model.architecture=word2vecs"], "model.architecture: 'word2vecs' is not known"),
    ],
)
def test_mistakes_are_refused_before_anything_starts(
    undisturbed: Path,
    overrides: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in AT_IMPORT.items():  # another test of this process may have imported Ray
        monkeypatch.setenv(name, value)
    assert entries.main(["train", *TEXT, *SETTINGS, "name=refused", ALONE, *overrides]) == 2
    assert message in capsys.readouterr().err


def test_a_rate_that_is_too_high_ends_the_run_by_name(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entries.main(["train", *TEXT, *SETTINGS, "name=wild", "model.lr=1e30", ALONE]) == 2
    assert "lower model.lr" in capsys.readouterr().err
    assert not (home / "runs" / "wild" / "bundle").exists()
