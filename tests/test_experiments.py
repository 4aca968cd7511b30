"""Every experiment as it is shipped, on stand-in data: it composes, trains its first step, and warns of nothing."""

import logging
from functools import partial
from pathlib import Path

import pytest

from dragoman.conf import compose, groups
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.settle import settle
from dragoman.pipelines.shard import shard
from dragoman.pipelines.tasks import launch
from dragoman.pipelines.training.time_limit import TimeLimit

WORDS = ("anna", "ben", "carl", "sees", "hears", "likes", "the", "cat", "dog", "bird", "fish", "horse")
LINES = [f"{a} {b} the {c} , and {c} {b} {a} ." for a in WORDS for b in WORDS for c in WORDS]
PLACES = [
    "cluster.backend=local", "tracking.offline=true", "tracking.system_metrics=false", "registry.register=false",
]  # fmt: skip
ENDS = ["train.max_minutes=0.00001", "train.precision=fp32", "evaluate.split=valid"]  # after the first step
VECTORS = ["vectors.epochs=1", "vectors.evaluate.pictures=false", "vectors.evaluate.similarity=[]",
           "vectors.evaluate.analogies=[]"]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all runs: experiments that read the same shards make them once."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return folder


@pytest.mark.parametrize("experiment", groups.choices("experiment"))
def test_the_first_step_warns_of_nothing(
    experiment: str, home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeLimit, "left", lambda _: 1e-9)
    monkeypatch.setattr(launch, "release", lambda *_: None)  # it comes after the last step, and takes most of the time
    caplog.set_level(logging.WARNING)
    composed = compose.typed(Config, compose.values([f"experiment={experiment}"]))
    text = "-" not in composed.pair
    data = ["corpus=everyday", "corpus.pairs=400"]
    if text:
        data = ["corpus=text", f"corpus.train.file={home}/text.txt", "corpus.cut.valid=0.1", "corpus.cut.run=4"]
    if composed.tokenizer.type == "bpe":
        data.append("tokenizer.vocabulary=100")
    words = [f"experiment={experiment}", f"paths.root={home}", f"name={experiment}", *data, *PLACES]
    words += VECTORS if experiment == "word2vec" else ENDS
    values = compose.values(words)
    read = compose.fingerprint({name: values[name] for name in ("corpus", "tokenizer", "shards", "pair", "seed")})
    words.append(f"paths.shards={home}/shards/{read}")
    shard(compose.typed(Config, compose.values(words)))
    said = [record.getMessage() for record in caplog.records if not record.name.startswith("dragoman.pipelines.corpus")]
    caplog.clear()
    assert train.task(compose.typed(Config, compose.values(words, settle=partial(settle, "promote")))) == 0
    assert [*said, *(record.getMessage() for record in caplog.records)] == []
