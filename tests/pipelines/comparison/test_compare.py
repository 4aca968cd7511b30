"""The verb end to end on a tiny corpus: trains, measures, draws, writes one page, and goes on after a kill."""

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dragoman.pipelines import entries
from dragoman.pipelines.comparison.translation import TranslationNetworks
from tests.pipelines.processes import finish
from tests.warm import Command

SETTINGS = [
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
    "decode.max_ratio=0.5",
    "decode.max_extra=4",
    "evaluate.bootstrap=20",
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


class Page(HTMLParser):
    """What a page shows and what it asks for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.alts: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        if tag not in ("meta", "img", "wbr"):
            self.open.append(tag)
        self.addresses += [value for key, value in attrs if key in ("src", "href", "srcset", "action") and value]
        if tag == "img":
            self.alts.append(values.get("alt") or "")
        if values.get("id"):
            self.ids.append(str(values["id"]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with shards, and with the comparison of three networks."""
    folder = tmp_path_factory.mktemp("home")
    finish(Command(("shard", *SETTINGS, f"paths.root={folder}"), {**os.environ, "OMP_NUM_THREADS": "1"}))
    assert compare(folder, ALL) == 0
    return folder


def compare(home: Path, models: str, *overrides: str) -> int:
    sizes = SIZES if models == ALL else []
    return entries.main(["compare", *SETTINGS, *sizes, f"paths.root={home}", f"models=[{models}]", *overrides])


def run_dir(home: Path) -> Path:
    return home / "runs" / "tiny"


def test_the_page_stands_alone_and_says_everything(home: Path) -> None:
    text = (run_dir(home) / "compare.html").read_text(encoding="utf-8")
    page = Page(text)
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in page.addresses)
    assert not page.open
    assert not {"script", "link", "iframe"} & set(page.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert "$" not in text
    assert "They cover the choice of the sentences alone" in text
    assert len(page.alts) >= 5
    assert all(len(alt) > 20 for alt in page.alts)
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= set(page.ids)
    assert all(label in text.replace("<wbr>", "") for label in LABELS)
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_every_picture_is_a_file_and_a_record(home: Path) -> None:
    pictures = {path.stem for path in (run_dir(home) / "pictures").glob("*.png")}
    assert pictures == {"scores", "learning", "length", "alignment-1", "heads-transformer_tiny"}
    records = spool(home)
    sent = {Path(record["path"]).stem for record in records if record["kind"] == "artifact"}
    assert pictures | {"compare"} <= sent
    values: dict[str, float] = {}
    for record in records:
        if record["kind"] == "metrics":
            values |= record["values"]
    for label in LABELS:
        assert {f"{label}/bleu", f"{label}/chrf_low", f"{label}/training_tokens_per_second"} <= set(values)
    assert "rnnsearch_additive/bleu_won" in values and "rnnsearch_additive/bleu_won_p" not in values


def test_all_had_the_same_budget_and_the_same_batches(home: Path) -> None:
    journals = [
        [json.loads(line) for line in (home / "runs" / f"tiny-{label}" / "steps.jsonl").read_text().splitlines()]
        for label in LABELS
    ]
    batches = [[(line["step"], line["tokens"], line["batch"]) for line in one if "batch" in line] for one in journals]
    assert batches[0] == batches[1] == batches[2]
    tokens = [count for _, count, _ in batches[0]]
    assert sum(tokens[:-1]) < 4000 <= sum(tokens)


def test_again_nothing_is_trained_or_measured_twice(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TranslationNetworks, "pictures", lambda self: iter(()))
    before = {label: (home / "runs" / f"tiny-{label}" / "steps.jsonl").stat().st_mtime_ns for label in LABELS}
    measured = (run_dir(home) / "measures" / "rnnenc.json").stat().st_mtime_ns
    # as after a kill: one network is measured, one trained and not measured
    (run_dir(home) / "measures" / "transformer_tiny.json").unlink()
    with caplog.at_level("INFO"):
        assert compare(home, ALL) == 0
    assert caplog.text.count("trained before") == 3
    assert caplog.text.count("measured before") == 2
    assert before == {label: (home / "runs" / f"tiny-{label}" / "steps.jsonl").stat().st_mtime_ns for label in LABELS}
    assert (run_dir(home) / "measures" / "rnnenc.json").stat().st_mtime_ns == measured
    assert not list((run_dir(home) / "pictures").iterdir())  # none of an older report beside a newer one


def test_bundles_and_runs_are_taken_as_they_stand(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TranslationNetworks, "pictures", lambda self: iter(()))
    bundle = home / "runs" / "tiny-rnnenc" / "bundle"
    assert compare(home, f"{bundle},tiny-transformer_tiny", "compare.name=stand") == 0
    text = (home / "runs" / "stand" / "compare.html").read_text(encoding="utf-8")
    assert re.search(r"tiny-rnnenc<small>as it stands", text)
    assert "2 were taken as they stand" in text
    assert sorted(path.name for path in (home / "runs" / "stand" / "measures").iterdir()) == [
        "tiny-rnnenc.json", "tiny-transformer_tiny.json",
    ]  # fmt: skip


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
        ("tiny-rnnenc", ["pair=de-en", "paths.shards=${paths.root}/shards/phrasebook-en-de-bpe"], "translates en-de"),
        ("rnnenc", ["pair=en-fr"], "no shards"),
        ("rnnenc", [*SMALL, "compare.max_tokens=3000"], "more than this budget"),
        ("rnnenc", [*SMALL, "compare.warmup=0.5"], "train.optimizer.warmup_steps was"),
        ("rnnenc", ["compare.seeds=0"], "compare.seeds=0: must be at least 1"),
        ("rnnenc", ["compare.warmup=1.5"], "compare.warmup=1.5"),
        ("rnnenc", ["+compare.model.dropot=0.2"], "compare.model: unknown key: 'dropot' is not known. Did you mean"),
        ("tiny-rnnenc", ["+compare.model.dropout=0.2"], "compare.model: unknown key: 'dropout' is not known"),
        ("transformer", ["+compare.model.heads=3", "compare.name=other"], "model.heads=3"),
        ("rnnenc", ["+compare.recipes.rnnenc.rate=1"], "compare.recipes.rnnenc: unknown key: 'rate'"),
        ("rnnenc", ["+compare.recipes.rnnsaerch.lr=1"], "compare.recipes: 'rnnsaerch' is not known. Did you mean"),
        ("rnnenc", ["+compare.networks.rnnenc.nrm=pre"], "compare.networks.rnnenc: unknown key: 'nrm' is not known"),
        (
            "rnnenc",
            ["+compare.networks.rnnsaerch.norm=pre"],
            "compare.networks: 'rnnsaerch' is not known. Did you mean",
        ),
    ],
)
def test_mistakes_are_refused_before_anything_starts(
    home: Path, models: str, overrides: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in (home / "runs").iterdir())
    assert compare(home, models, *overrides) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in (home / "runs").iterdir()) == before


def test_several_seeds_are_trained_and_the_page_says_what_its_intervals_cover(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TranslationNetworks, "pictures", lambda self: iter(()))
    assert compare(home, "rnnenc,tiny-transformer_tiny,tiny-rnnsearch_additive", *SMALL, "compare.seeds=2") == 0
    seeds = [json.loads((home / "runs" / f"tiny-rnnenc{end}" / "run.json").read_text()) for end in ("", "-seed2")]
    assert seeds[0] != seeds[1]
    measures = [json.loads((run_dir(home) / "measures" / f"rnnenc{end}.json").read_text()) for end in ("", "-seed2")]
    text = (run_dir(home) / "compare.html").read_text(encoding="utf-8")
    assert "rnnenc<small>2 seeds" in text
    assert "tiny-transformer_<wbr>tiny<small>as it stands" in text
    assert "Of networks trained here they cover the sentences and 2 seeds" in text
    assert "for the 0 comparisons of networks with several seeds" in text
    assert text.count("one seed: no p") == 2
    values: dict[str, float] = {}
    for record in spool(home):
        values |= record["values"] if record["kind"] == "metrics" else {}
    assert values["rnnenc/bleu"] == pytest.approx(sum(one["bleu"]["score"] for one in measures) / 2)
    assert "tiny-transformer_tiny/bleu_won" in values and "tiny-transformer_tiny/bleu_won_p" not in values
