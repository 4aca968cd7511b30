"""The verb end to end on a tiny corpus: trains, measures, prints one table, draws, and goes on after a kill."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.pipelines import entries

SETTINGS = [
    "corpus=everyday",
    "corpus.pairs=400",
    "tokenizer.vocabulary=200",
    "loader.batch_tokens=256",
    "train.precision=fp32",
    "train.evaluate_every=10",
    "train.checkpoint_every=10",
    "train.average_last=1",
    "decode.beam=1",
    "decode.length_penalty=1.0",
    "evaluate.sentences=12",
    "evaluate.samples=0",
    "decode.max_ratio=0.5",
    "decode.max_extra=4",
    "evaluate.trials=20",
    "tracking.offline=true",
    "tracking.system_metrics=false",
    "cluster.backend=local",
    "compare.name=tiny",
    "compare.max_tokens=4000",
    "compare.map_count=1",
]
SIZES = [
    "+compare.model.width=8",
    "+compare.model.encoder_width=4",
    "+compare.model.embedding=8",
    "+compare.model.attention_width=4",
    "+compare.model.heads=2",
    "+compare.model.feed_forward=8",
    "+compare.model.encoder_layers=1",
    "+compare.model.decoder_layers=1",
]
ALL = "rnnenc,rnnsearch_additive,transformer"
LABELS = ("rnnenc", "rnnsearch_additive", "transformer_tiny")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with shards, and with the comparison of three networks."""
    folder = tmp_path_factory.mktemp("home")
    assert entries.main(["shard", *SETTINGS, f"paths.root={folder}"]) == 0
    assert compare(folder, ALL) == 0
    return folder


def compare(home: Path, models: str, *overrides: str) -> int:
    sizes = SIZES if models == ALL else []
    return entries.main(["compare", *SETTINGS, *sizes, f"paths.root={home}", f"models=[{models}]", *overrides])


def run_dir(home: Path) -> Path:
    return home / "runs" / "tiny"


def test_the_table_and_every_picture_are_recorded(home: Path) -> None:
    pictures = {path.stem for path in (run_dir(home) / "pictures").glob("*.png")}
    assert pictures == {"learning", "length", "alignment-1", "heads-transformer_tiny"}
    records = spool(home)
    sent = {Path(record["path"]).stem for record in records if record["kind"] == "artifact"}
    assert pictures <= sent
    values: dict[str, float] = {}
    for record in records:
        if record["kind"] == "metrics":
            values |= record["values"]
    for label in LABELS:
        assert {f"{label}/bleu", f"{label}/chrf", f"{label}/tokens_per_second"} <= set(values)
    assert "rnnsearch_additive/p_value" in values and "rnnenc/p_value" not in values


def test_all_had_the_same_budget_and_the_same_batches(home: Path) -> None:
    journals = [
        [json.loads(line) for line in (home / "runs" / f"tiny-{label}" / "steps.jsonl").read_text().splitlines()]
        for label in LABELS
    ]
    batches = [[(line["step"], line["tokens"], line["batch"]) for line in one if "batch" in line] for one in journals]
    assert batches[0] == batches[1] == batches[2]
    tokens = [count for _, count, _ in batches[0]]
    assert sum(tokens[:-1]) < 4000 <= sum(tokens)


def test_again_nothing_is_trained_twice_and_bundles_are_taken_as_they_stand(
    home: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    journals = [home / "runs" / f"tiny-{label}" / "steps.jsonl" for label in LABELS]
    before = [path.stat().st_mtime_ns for path in journals]
    bundle = home / "runs" / "tiny-transformer_tiny" / "bundle"
    with caplog.at_level("INFO"):
        assert compare(home, f"rnnenc,{bundle},tiny-rnnsearch_additive", *SMALL, "compare.map_count=0") == 0
    assert caplog.text.count("trained before") == 1
    assert before == [path.stat().st_mtime_ns for path in journals]
    head, *rows = capsys.readouterr().out.split("\n")[:4]
    assert head.split()[:5] == ["network", "BLEU", "difference", "p", "chrF"]
    assert [row.split()[0] for row in rows] == ["rnnenc", "tiny-transformer_tiny", "tiny-rnnsearch_additive"]
    assert [row.split()[2] == "-" for row in rows] == [True, False, False], "each is tested against the one before"
    assert not list((run_dir(home) / "pictures").glob("alignment*")), "none of an older comparison beside a newer one"


def spool(home: Path) -> list[dict[str, Any]]:
    from dragoman.model.runs.spool import Spool

    return [{"kind": record.kind, **record.fields} for record in Spool(run_dir(home)).records()]


SMALL = ["+compare.model.width=8", "+compare.model.embedding=8"]  # as the run tiny-rnnenc was started


@pytest.mark.parametrize(
    ("models", "overrides", "message"),
    [
        ("rnnenc,rnnserach_additive", [], "Did you mean 'rnnsearch_additive'?"),
        ("", [], "models=[rnnenc,rnnsearch_additive,transformer]"),
        ("rnnenc,rnnenc", [], "'rnnenc' is listed twice"),
        ("skipgram", [], "'skipgram' neither translates nor is a language model"),
        ("tiny-rnnenc", ["pair=de-en", "paths.shards=${paths.root}/shards/everyday-en-de-bpe"], "translates en-de"),
        ("rnnenc", ["pair=en-fr"], "no shards"),
        ("rnnenc", [*SMALL, "compare.max_tokens=3000"], "more than this budget"),
        ("rnnenc", [*SMALL, "compare.warmup=0.5"], "train.optimizer.warmup_steps was"),
        ("rnnenc", ["+compare.model.dropot=0.2"], "compare.model: unknown key: 'dropot' is not known. Did you mean"),
        ("transformer", ["+compare.model.heads=3", "compare.name=other"], "model.heads=3"),
        ("rnnenc", ["+compare.recipes.rnnsaerch.lr=1"], "compare.recipes: 'rnnsaerch' is not known. Did you mean"),
    ],
)
def test_mistakes_are_refused_before_anything_starts(
    home: Path, models: str, overrides: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in (home / "runs").iterdir())
    assert compare(home, models, *overrides) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in (home / "runs").iterdir()) == before
