"""`dragoman train` of word vectors: killed at any moment, alone or under Ray, and still the same run."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.model.bundles.vectors import load_vectors
from dragoman.model.runs import checkpoints, journal, paths
from dragoman.pipelines import entries
from dragoman.pipelines.cluster.embedded_ray import AT_IMPORT
from dragoman.pipelines.training import checkpoint
from tests.pipelines.processes import finish, kill_tree, start_verb, wait_for
from tests.pipelines.ray_cluster import RayCluster
from tests.warm import Command

TEXT = [
    "corpus=phrasebook",
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
    "vectors.epochs=60",
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


def test_the_torch_path_runs_in_the_same_loop(home: Path, undisturbed: Path) -> None:
    here("train", *SETTINGS, "name=torch", "vectors.backend=torch", "vectors.epochs=2")
    assert epoch_losses(home / "runs" / "torch")[0] == pytest.approx(epoch_losses(undisturbed)[0], rel=0.1)
    assert (home / "runs" / "torch" / "bundle" / "config.json").is_file()


def test_negatives_of_a_pairs_own_run_in_the_same_loop(home: Path, undisturbed: Path) -> None:
    here("train", *SETTINGS, "name=pairwise", "model.shared_negatives=false", "vectors.epochs=2")
    run = home / "runs" / "pairwise"
    assert epoch_losses(run)[0] == pytest.approx(epoch_losses(undisturbed)[0], rel=0.1)
    assert load_vectors(run / "bundle").config.shared_negatives is False


def test_a_run_from_before_a_key_of_the_model_goes_on(undisturbed: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = undisturbed / "run.json"
    stored = path.read_text()
    told = json.loads(stored)
    assert told["model"].pop("shared_negatives") is True
    path.write_text(json.dumps(told))
    caplog.set_level(logging.INFO)
    here("train", *SETTINGS, "name=undisturbed")
    assert "is trained to its end" in caplog.text
    path.write_text(stored)


def test_a_finished_run_is_released_once(undisturbed: Path, caplog: pytest.LogCaptureFixture) -> None:
    bundle = load_vectors(undisturbed / "bundle")
    assert bundle.pair == "en" and bundle.facts["run"]["name"] == "undisturbed"
    before = (undisturbed / "bundle" / "model.safetensors").stat().st_mtime_ns
    caplog.set_level(logging.INFO)
    here("train", *SETTINGS, "name=undisturbed")
    assert "is trained to its end" in caplog.text and "of these weights already" in caplog.text
    assert (undisturbed / "bundle" / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("model", ["cbow_hierarchical", "glove", "tfidf"])
def test_every_kind_of_method_comes_to_a_bundle(home: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["vectors.side=source", "vectors.epochs=2", "model.min_count=2"]
    here("train", f"model={model}", f"name={model}", *own, f"vectors.evaluate.pictures={model == 'tfidf'}")
    bundle = load_vectors(home / "runs" / model / "bundle")
    assert bundle.config.name == model and "the" in bundle.words
    assert (home / "runs" / model / "pictures" / "similarity.png").is_file() == (model == "tfidf")
    assert entries.main(["verify", model]) == 0
    told = "a model that is counted whole has none" if model == "tfidf" else "each once, their batches as replayed"
    shown = capsys.readouterr().out
    assert told in shown and f"{model}: nothing differs" in shown


def test_word_vectors_are_scored_again_by_verify(
    home: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by files that the command line does not name again."""
    rows = ["man woman 9", "dog cat 7", "house dog 2", "man house 3", "see man 4", "woman cat 5"]
    (tmp_path / "some.txt").write_text("".join(f"{row}\n" for row in rows))
    (shards,) = (f"paths.shards={path.parent}" for path in (home / "shards").glob("*/manifest.json"))
    shutil.copytree(undisturbed, run := tmp_path / "run")
    sets = [f"vectors.evaluate.root={tmp_path}", "vectors.evaluate.similarity=[some.txt]"]
    here("evaluate", f"evaluate.bundle={run / 'bundle'}", *sets, "vectors.side=source")
    bundle, record = run / "bundle" / "config.json", run / "evaluation.vectors.json"
    scores = json.loads(record.read_text())["scores"]
    assert "similarity/some" in scores
    bundle.write_text(json.dumps({**json.loads(bundle.read_text()), "scores": scores}))
    capsys.readouterr()
    assert entries.main(["verify", str(run), shards]) == 0
    assert "evaluation.vectors.json: scored again by the bundle" in capsys.readouterr().out
    forged = {**scores, "similarity/some": 99.0}
    record.write_text(json.dumps({**json.loads(record.read_text()), "scores": forged}))
    assert entries.main(["verify", str(run), shards]) == 1
    assert "scores.similarity/some 99, computed again " in capsys.readouterr().out
    bundle.write_text(json.dumps({**json.loads(bundle.read_text()), "scores": forged}))
    assert entries.main(["verify", str(run), shards]) == 1
    assert "bundle: its scores are those of no evaluation of the run" in capsys.readouterr().out
    bundle.write_text(json.dumps({**json.loads(bundle.read_text()), "scores": scores}))
    (tmp_path / "some.txt").write_text("".join(f"{row}\n" for row in rows[::-1][:4]))
    record.write_text(json.dumps({**json.loads(record.read_text()), "scores": scores}))
    assert entries.main(["verify", str(run), shards]) == 1, "other files"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["vectors.side=null"], "vectors.side: the shards are of pairs of sentences (en-de)"),
        (["registry.register=true"], "translation model; word vectors need one of their own"),
        (["model.min_count=100000"], "model.min_count=100000: no word of the training text"),
        (["model.width=0"], "model.width=0"),
        (["vectors.backend=torch", "model.shared_negatives=false"], "torch draws negatives once for the words of"),
        (["name=undisturbed", "model.shared_negatives=false"], "model.shared_negatives was True, is False"),
        (["vectors.epochs=0"], "vectors.epochs=0: must be at least 1"),
        (["vectors.segment_words=1000000", "cluster.workers=2", "cluster.backend=ray"], "an epoch has only 1 segments"),
        (["model.architecture=word2vecs"], "model.architecture: 'word2vecs' is not known"),
        (["name=undisturbed", "seed=2"], "seed was 1, is 2"),
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
