"""What there is and what may go: `dragoman runs`, `models` and `clean`."""

import io
import json
import os
import sys
import time
from pathlib import Path

import pytest

from dragoman.model.runs.spool import Spool
from dragoman.pipelines.tracking.server import TrackingConfig
from dragoman.services.commands import clean, models, runs
from dragoman.services.commands.run_folders import age, headline
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


def config(folder: Path, **settings: object) -> clean.CleanConfig:
    return clean.CleanConfig(
        runs=str(folder / "runs"), caches=[str(folder / "cache")], ray=str(folder / "ray"),
        **settings,  # type: ignore[arg-type]  # any of the section's
    )  # fmt: skip


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
    assert headline({"test_bleu_lowercase": "9", "test_bleu": "34.2180"}) == "BLEU 34.22"
    assert headline({"test": {"perplexity": 3.0, "nats": 1.1}}) == "perplexity 3.00"
    assert headline({"similarity/mean": "41.0", "similarity/simlex": "3"}) == "similarity 41.00"
    assert headline({"pair": "en-de"}) == "-"
    assert [age(0, now) for now in (30, 90, 3 * 3600, 47 * 3600, 5 * DAY)] == ["30 s", "2 min", "3 h", "47 h", "5 days"]


def test_only_what_is_old_and_nobodys_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = make_run(tmp_path, "old", 40), make_run(tmp_path, "new", 3)
    at_work, unsent = make_run(tmp_path, "at work", 40), make_run(tmp_path, "unsent", 40)
    (unsent / "spool").mkdir()
    (unsent / "spool" / "records.jsonl").write_text("{}\n")
    os.utime(unsent / "spool" / "records.jsonl", (1e9, 1e9))
    os.utime(unsent / "spool", (1e9, 1e9))
    spool = Spool(at_work)
    spool.open()
    for path in at_work.rglob("*"):
        os.utime(path, (1e9, 1e9))
    cached = [tmp_path / "cache" / "m" / name for name in ("1-a", "2-b")]
    sessions = [tmp_path / "ray" / name for name in ("session_dead", "session_just_started")]
    for folder in (*cached, *sessions):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    for folder in (cached[0], sessions[0]):
        os.utime(folder / "file", (1e9, 1e9))
        os.utime(folder, (1e9, 1e9))
    (tmp_path / "ray" / "session_latest").symlink_to(sessions[0])
    assert clean.clean(config(tmp_path, ask=False)) == 0
    spool.close()
    assert "3 folders" in capsys.readouterr().out
    assert not any(path.exists() for path in (old, cached[0], sessions[0]))
    assert all(path.exists() for path in (new, at_work, unsent, cached[1], sessions[1]))


def test_nothing_goes_without_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make_run(tmp_path, "old", 40)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    words = [f"paths.root={tmp_path}", f"clean.ray={tmp_path}/ray"]
    assert clean.main(words) == 2, "no terminal, nobody to ask"
    shown = capsys.readouterr()
    assert str(old) in shown.out
    assert shown.err.splitlines() == [
        "dragoman clean: clean.ask: nothing was deleted: there is no terminal to ask at; "
        "clean.ask=false deletes without asking"
    ]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _question: "")
    assert clean.clean(config(tmp_path)) == 0
    assert old.exists()
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    assert clean.clean(config(tmp_path)) == 0
    assert not old.exists()
    assert clean.clean(config(tmp_path)) == 0
    assert capsys.readouterr().out.endswith("nothing to clean\n")
