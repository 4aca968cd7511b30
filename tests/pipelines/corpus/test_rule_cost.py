"""The cost of one rule: counts that agree with a sharding, other limits, samples, and no file left."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines import shard
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.clean import fitted_rules
from dragoman.pipelines.corpus.read.built_in import phrasebook
from dragoman.pipelines.corpus.settings import CorpusPart, PartCleanConfig
from tests.pipelines.corpus.planned import tsv_config

PAIRS = [(pair.english, pair.german) for pair in phrasebook()["train"][:300]]
LINES = [
    *(f"{a}\t{b}" for a, b in PAIRS),
    "She has 12 dogs.\tSie hat 13 Hunde.",  # numbers alone
    "The <b>cat</b> has 2 legs.\tDie Katze hat 4 Beine.",  # markup and numbers
    f"{PAIRS[7][0].upper()}\t{PAIRS[7][1].upper()}",
]


def explained(capsys: pytest.CaptureFixture[str], config: Config) -> str:
    assert shard.task(config) == 0
    return capsys.readouterr().out


def test_a_rule_is_counted_with_and_without_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = explained(capsys, tsv_config(tmp_path, LINES, "corpus.clean.rules=[markup]", "shards.explain=numbers"))
    assert told.startswith("numbers: 2 of 303 training pairs fail it (0.660 %), 1 it alone\n")
    assert "pairs.tsv, line 301: She has 12 dogs. ||| Sie hat 13 Hunde." in told
    assert "The <b>cat" not in told
    assert not list((tmp_path / "home").glob("**/*")), "no shards, no folder"


def test_a_near_duplicate_is_shown_with_the_pair_that_it_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = explained(capsys, tsv_config(tmp_path, LINES, "shards.explain=near_duplicate"))
    assert re.search(r"near_duplicate: \d+ of 303 training pairs fail it", told)
    assert f"line 303: {PAIRS[7][0].upper()} ||| {PAIRS[7][1].upper()}\n    repeats {PAIRS[7][0]} |||" in told


def test_other_limits_stand_in_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitted_rules, "ENOUGH", 1)
    pairs = [(pair.english, pair.german) for pair in phrasebook()["train"][:1500]]
    wrong = [f"{pairs[number][0]}\t{pairs[number + 700][1]}" for number in range(50)]
    lines = [*(f"{a}\t{b}" for a, b in pairs), *wrong]
    told = explained(capsys, tsv_config(tmp_path, lines, "shards.explain=unrelated"))
    rows = [line.split() for line in told.splitlines() if re.match(r"-?[\d.]+ +[\d,]+ +[\d.]+ %", line.strip())]
    limits, fails = [float(row[0]) for row in rows], [int(row[1].replace(",", "")) for row in rows]
    assert limits == sorted(limits)
    assert fails == sorted(fails) and fails[-1] > 0
    (now,) = [row for row in rows if row[-1] == "now"]
    assert now[0] == "-3.5"
    assert told.startswith(f"unrelated: {now[1]} of ")
    assert shard.task(tsv_config(tmp_path, lines, "corpus.clean.rules=[unrelated]")) == 0
    assert f"unrelated {now[1]}" in capsys.readouterr().out, "as many as a sharding drops"


def test_of_a_mix_each_part_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tsv_config(tmp_path, LINES, "shards.explain=numbers")
    (tmp_path / "more.tsv").write_text("Er hat 3.\tHe has 4.\n", encoding="utf-8")
    parts: list[Any] = [CorpusPart("a"), CorpusPart("b", clean=PartCleanConfig(rules="none"))]
    parts[1].train = type(config.corpus.train)(file=str(tmp_path / "more.tsv"))
    config.corpus.parts = parts
    told = explained(capsys, config)
    assert told.startswith("numbers: 3 of 304 training pairs fail it (0.987 %), 3 it alone\n  a: 2 of 303 ")
    assert "\n  b: 1 of 1 training pairs fail it (100.000 %), 1 it alone\n" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["shards.explain=nubmers"], "shards.explain"),
        (["shards.explain=low_score"], "shards.explain=low_score: needs the scores of two models"),
    ],
)
def test_a_rule_that_cannot_be_explained_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        shard.task(tsv_config(tmp_path, LINES, *words))


def test_matches_are_what_the_rule_judges() -> None:
    pairs = [(pair.english, pair.german) for pair in phrasebook()["train"][:1500]]
    sides, parity = (list(side) for side in zip(*pairs, strict=True)), np.arange(len(pairs)) % 2
    source, target = sides
    rules = fitted_rules.learn(source, target, parity)
    assert rules is not None
    rules.pairs = fitted_rules.ENOUGH
    turned = target[7:] + target[:7]
    found = rules.judge((source, turned), parity, ("unrelated",), ("en", "de"), -2.0)["unrelated"]
    assert found.any()
    assert (found == (rules.matches((source, turned), parity) < -2.0)).all()
