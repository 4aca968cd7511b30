"""Lists of what there is: `dragoman runs` and `models`."""

import json
import os
import time
from pathlib import Path

import pytest

from dragoman.pipelines.tracking.settings import TrackingConfig
from dragoman.services.commands import models, runs
from dragoman.services.commands.runs import age, headline
from dragoman.services.models.registry import Registry

DAY = 86400.0


def make_run(folder: Path, name: str, days: float, score: float | None = None) -> Path:
    """A run that was changed last so many days ago; `score`: the BLEU of its bundle."""
    run = folder / "runs" / name
    (run / "checkpoints" / "step-00000020").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "weights").write_bytes(bytes(3_000_000))
    if score is not None:
        (run / "bundle").mkdir()
        (run / "bundle" / "config.json").write_text(json.dumps({"scores": {"test": {"bleu": score}}}))
        (run / "release.json").write_text(json.dumps({"model": "m", "version": "7"}))
    past = time.time() - days * DAY
    for path in run.rglob("*"):
        os.utime(path, (past, past))
    os.utime(run, (past, past))
    return run


def test_records_of_shardings_are_listed_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "shard-like-a-run", 3)
    (tmp_path / "runs" / "shard-tatoeba-0123456789ab" / "spool").mkdir(parents=True)
    assert runs.show(tmp_path / "runs") == 0
    printed = capsys.readouterr().out
    assert "shard-like-a-run" in printed and "shard-tatoeba" not in printed
    assert printed.endswith("and 1 record of shardings (runs.shards=true)\n")
    assert runs.main([f"paths.root={tmp_path}", "runs.shards=true"]) == 0
    assert "shard-tatoeba-0123456789ab" in capsys.readouterr().out


def test_runs_are_listed_with_state_score_age_size_and_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, "done", 40, 34.218)
    make_run(tmp_path, "half", 3)
    (tmp_path / "runs" / "no run").mkdir()
    assert runs.main([f"paths.runs={tmp_path}/runs"]) == 0
    head, *rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [cell.strip() for cell in head if cell] == ["RUN", "STATE", "SCORE", "AGE", "SIZE", "VERSION"]
    assert [[cell.strip() for cell in row if cell] for row in rows] == [
        ["half", "at step 20", "-", "3 days", "3.0 MB", "-"],
        ["done", "finished", "BLEU 34.22", "40 days", "3.0 MB", "m/7"],
    ]


def test_versions_are_listed_with_alias_age_and_size(
    tracking: TrackingConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert models.show(Registry(tracking.uri, tmp_path)) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["MODEL", "VERSION", "ALIAS", "SCORE", "AGE", "SIZE", "RUN"]
    assert [row.split()[:3] for row in rows] == [["m", "2", "-"], ["m", "1", "champion"]]
    assert all(" MB " in row for row in rows)


def test_every_kind_of_model_has_its_figure() -> None:
    assert headline({"test_bleu_moses": "9", "test_bleu": "34.2180"}) == "BLEU 34.22"
    assert headline({"test": {"perplexity": 3.0, "nats": 1.1}}) == "perplexity 3.00"
    assert headline({"similarity/mean": "41.0", "similarity/simlex": "3"}) == "similarity 41.00"
    assert headline({"pair": "en-de"}) == "-"
    assert [age(0, now) for now in (30, 90, 3 * 3600, 47 * 3600, 5 * DAY)] == ["30 s", "2 min", "3 h", "47 h", "5 days"]
