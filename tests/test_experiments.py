"""Every experiment as it is shipped, on stand-in data: it composes, trains its first step, and warns of nothing."""

import logging
from pathlib import Path

import pytest

from dragoman.conf import compose, groups
from dragoman.pipelines import train
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import as_sharded
from dragoman.pipelines.shard import shard

WORDS = ("anna", "ben", "carl", "sees", "hears", "likes", "the", "cat", "dog", "bird", "fish", "horse")
LINES = [f"{a} {b} the {c} , and {c} {b} {a} ." for a in WORDS for b in WORDS for c in WORDS]
PLACES = [
    "cluster.backend=local", "tracking.offline=true", "tracking.system_metrics=false", "registry.register=false",
]  # fmt: skip
ENDS = [  # after the first step; what the experiment says of rates and lengths stays
    "train.max_minutes=0.00001", "train.precision=fp32", "evaluate.sentences=2", "evaluate.split=valid",
    "evaluate.length_penalties=[1.0]", "decode.beam=1", "decode.length_penalty=1.0", "decode.repeats_in_word=0",
    "evaluate.samples=0",
]  # fmt: skip
VECTORS = ["vectors.epochs=1", "vectors.evaluate.pictures=false", "vectors.evaluate.similarity=[]",
           "vectors.evaluate.analogies=[]"]  # fmt: skip


@pytest.mark.parametrize("experiment", groups.choices("experiment"))
def test_the_first_step_warns_of_nothing(experiment: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    caplog.set_level(logging.WARNING)
    composed = compose.typed(Config, compose.values([f"experiment={experiment}"]))
    text = "-" not in composed.pair
    data = ["corpus=phrasebook", "corpus.pairs=600"]
    if composed.corpus.format == "labelled":
        data = ["corpus.pairs=600"]
    elif text:
        data = ["corpus=text", f"corpus.train.file={tmp_path}/text.txt", "corpus.cut.valid=0.1", "corpus.cut.run=4"]
    if composed.tokenizer.type == "bpe":
        data.append("tokenizer.vocabulary=100")
    words = [f"experiment={experiment}", f"paths.root={tmp_path}/home", "name=first", *data, *PLACES]
    words += VECTORS if experiment == "word2vec" else ENDS
    shard(compose.typed(Config, compose.values(words)))
    said = [record.getMessage() for record in caplog.records if not record.name.startswith("dragoman.pipelines.corpus")]
    caplog.clear()
    assert train.task(compose.typed(Config, compose.values(words, as_sharded))) == 0
    told = [*said, *(record.getMessage() for record in caplog.records)]
    assert [line for line in told if "repeats itself" not in line] == []  # what a network of one step translates
