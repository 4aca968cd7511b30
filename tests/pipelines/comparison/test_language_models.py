"""The verb on language models: trains, measures, draws and writes one page; what cannot be compared is refused."""

import json
import math
import os
from pathlib import Path

import pytest

from dragoman.pipelines import entries
from dragoman.pipelines.comparison.measures import training_record
from tests.pipelines.processes import finish
from tests.warm import Command

SETTINGS = [
    "corpus=phrasebook", "pair=en-de", "corpus.pairs=400", "tokenizer=characters", "loader.side=source",
    "loader.batch_tokens=256", "loader.context_length=32", "loader.lanes=1", "train.precision=fp32",
    "train.evaluate_every=5", "train.checkpoint_every=10", "train.average_last=1", "train.loss.label_smoothing=0",
    "evaluate.sentences=12", "evaluate.bootstrap=20", "tracking.offline=true", "tracking.system_metrics=false",
    "cluster.backend=local", "compare.name=texts", "compare.max_tokens=2560",
]  # fmt: skip
SIZES = [
    "+compare.model.width=8", "+compare.model.embedding=8", "+compare.model.heads=2", "+compare.model.feed_forward=8",
    "+compare.model.layers=1",
]  # fmt: skip
LABELS = ("rnnlm_tanh", "rnnlm_attention", "statelm_linear", "statelm_selective", "gpt_modern")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with shards, and with the comparison of a network of each kind."""
    folder = tmp_path_factory.mktemp("home")
    shard = ("shard", *SETTINGS, f"paths.root={folder}")
    finish(Command(shard, {**os.environ, "OMP_NUM_THREADS": "1"}))
    assert compare(folder, ",".join(LABELS), *SIZES) == 0
    return folder


def compare(home: Path, models: str, *overrides: str) -> int:
    return entries.main(["compare", *SETTINGS, f"paths.root={home}", f"models=[{models}]", *overrides])


def page(home: Path, name: str = "texts") -> str:
    return (home / "runs" / name / "compare.html").read_text(encoding="utf-8").replace("<wbr>", "")


def test_all_are_on_one_page_after_equal_tokens(home: Path) -> None:
    text = page(home)
    assert all(f"{label}</th>" in text or f"{label}<small>" in text for label in LABELS)
    assert "5 of the networks were trained for this page on the same text, each for at most 2,560 target tokens" in text
    assert all(f'id="{name}"' in text for name in ("scores", "learning", "texts"))
    assert {path.stem for path in (home / "runs" / "texts" / "pictures").glob("*.png")} == {
        "scores",
        "learning",
    }
    for label in LABELS:
        record = training_record(home / "runs" / f"texts-{label}")
        assert record is not None and record.tokens == 2560 and record.validation


def test_the_figures_are_those_of_the_runs_own_evaluation(home: Path) -> None:
    for label in LABELS:
        found = json.loads((home / "runs" / "texts" / "measures" / f"{label}.json").read_text())
        own = json.loads((home / "runs" / f"texts-{label}" / "evaluation.test.json").read_text())["scores"]
        assert found["bits"]["score"] == pytest.approx(own["bits_per_character"])
        assert found["bits"]["low"] < found["bits"]["score"] < found["bits"]["high"]
        assert found["perplexity"] == pytest.approx(math.exp(own["nats"]))
        bits, characters = sum(found["record_bits"]), sum(found["record_characters"])
        assert bits / characters == pytest.approx(own["bits_per_character"])
    assert page(home).count("one seed: no p") == len(LABELS) - 1


def test_seeds_are_averaged_and_bundles_are_taken_as_they_stand(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert compare(home, "rnnlm_tanh,texts-gpt_modern", *SIZES[:2], SIZES[4], "compare.seeds=2") == 0
    assert "rnnlm_tanh: measured before" in caplog.text
    text = page(home)
    assert "rnnlm_tanh<small>2 seeds" in text and "texts-gpt_modern<small>as it stands" in text
    ends = ("", "-seed2")
    paths = [home / "runs" / "texts" / "measures" / f"rnnlm_tanh{end}.json" for end in ends]
    bits = [json.loads(path.read_text())["bits"]["score"] for path in paths]
    assert bits[0] != bits[1]
    assert f"{sum(bits) / 2:.3f}<small>{min(bits):.3f} to {max(bits):.3f}" in text


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("rnnenc,rnnlm_tanh", "'rnnenc' translates, 'rnnlm_tanh' is a language model; compare networks of one kind"),
        ("gpt_tiny,bert_tiny", "'bert_tiny' neither translates nor is a language model"),
        ("texts-gpt_modern,rnnsearch_dot", "'texts-gpt_modern' is a language model, 'rnnsearch_dot' translates"),
    ],
)
def test_networks_without_a_common_figure_are_refused(
    home: Path, models: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(home, models, "compare.name=mixed") == 2
    assert message in capsys.readouterr().err
    assert not list((home / "runs").glob("mixed*"))
