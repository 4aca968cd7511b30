"""The verb on language models: trains, measures and prints one table; what cannot be compared is refused."""

import contextlib
import io
import json
from pathlib import Path

import pytest

from dragoman.pipelines import entries
from dragoman.pipelines.comparison.measures import training_record

SETTINGS = [
    "corpus=everyday", "pair=en-de", "corpus.pairs=400", "tokenizer=characters", "loader.side=source",
    "loader.batch_tokens=256", "loader.context_length=32", "loader.lanes=1", "train.precision=fp32",
    "train.evaluate_every=5", "train.checkpoint_every=10", "train.average_last=1", "train.loss.label_smoothing=0",
    "evaluate.sentences=12", "evaluate.samples=0", "evaluate.trials=20", "tracking.offline=true",
    "tracking.system_metrics=false", "cluster.backend=local", "compare.name=texts", "compare.max_tokens=2560",
]  # fmt: skip
SIZES = [
    "+compare.model.width=8", "+compare.model.embedding=8", "+compare.model.heads=2", "+compare.model.feed_forward=8",
    "+compare.model.layers=1",
]  # fmt: skip
LABELS = ("rnnlm_tanh", "statelm_selective", "gpt_modern")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with shards."""
    folder = tmp_path_factory.mktemp("home")
    assert entries.main(["shard", *SETTINGS, f"paths.root={folder}"]) == 0
    return folder


@pytest.fixture(scope="module")
def table(home: Path) -> str:
    """The table of the comparison of a network of each kind, whose runs are in the home."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert compare(home, ",".join(LABELS), *SIZES) == 0
    return printed.getvalue()


def compare(home: Path, models: str, *overrides: str) -> int:
    return entries.main(["compare", *SETTINGS, f"paths.root={home}", f"models=[{models}]", *overrides])


def test_all_have_equal_tokens_and_the_figures_of_their_own_evaluation(home: Path, table: str) -> None:
    rows = {line.split()[0]: line.split() for line in table.split("\n") if line.strip()}
    assert {path.stem for path in (home / "runs" / "texts" / "pictures").glob("*.png")} == {"learning"}
    for label in LABELS:
        record = training_record(home / "runs" / f"texts-{label}")
        assert record is not None and record.tokens == 2560 and record.validation
        own = json.loads((home / "runs" / f"texts-{label}" / "evaluation.test.json").read_text())["scores"]
        assert rows[label][1] == f"{own['bits_per_character']:.3f}"
        assert rows[label][4] == f"{own['perplexity']:,.2f}"


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("rnnenc,rnnlm_tanh", "'rnnenc' translates, 'rnnlm_tanh' is a language model; compare networks of one kind"),
        ("gpt_tiny,bert_tiny", "'bert_tiny' neither translates nor is a language model"),
        ("texts-gpt_modern,rnnsearch_dot", "'texts-gpt_modern' is a language model, 'rnnsearch_dot' translates"),
    ],
)
@pytest.mark.usefixtures("table")
def test_networks_without_a_common_figure_are_refused(
    home: Path, models: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(home, models, "compare.name=mixed") == 2
    assert message in capsys.readouterr().err
    assert not list((home / "runs").glob("mixed*"))
