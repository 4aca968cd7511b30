"""A line of real commands: made once, up to date afterwards, and the same after a kill."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.services import cli
from dragoman.services.lines import running
from dragoman.services.lines.entries import main

LINE = """
vars:
  words: [model=transformer_tiny, model.width=32, model.heads=2, model.encoder_layers=1, model.decoder_layers=1,
          train.max_steps=20, train.checkpoint_every=5, train.evaluate_every=20, train.precision=fp32,
          train.optimizer.lr=0.01, train.optimizer.warmup_steps=5, decode.length_penalty=1.0,
          evaluate.samples=0, model.norm=pre, model.dropout=0,
          cluster.backend=local, loader.batch_tokens=256, registry.register=false, evaluate.sentences=20]
steps:
  shards:
    shard: [corpus=tsv, "corpus.train.file={train}", "corpus.valid.file={valid}", "corpus.test.file={test}",
            corpus.leaks=source, tokenizer.vocabulary=120, cluster.backend=local]
  teacher: {{train: ["paths.shards=${{shards.shards}}", "${{vars.words}}"]}}
  taught: {{synthesize: ["paths.shards=${{shards.shards}}", "synthesize.bundle=${{teacher.run}}", synthesize.part=50]}}
  student:
    train: ["paths.shards=${{shards.shards}}", "train.init_from=${{teacher.run}}", "${{vars.words}}"]
    after: [taught]
"""
WEIGHTS = "bundle/model.safetensors"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a line, with its corpus."""
    folder = tmp_path_factory.mktemp("line")
    kinds = ("dog", "cat", "cow", "hen", "pig")
    names = [a + b for a in ("ka", "lo", "mi", "nu", "pe", "ri", "so") for b in "bdfghjlmns"]  # numbers count as equal
    pairs = [f"the {kind} {name} sleeps\tder {kind} {name} schläft\n" for name in names for kind in kinds]
    (folder / "train.tsv").write_text("".join(pairs[:280]), encoding="utf-8")
    (folder / "valid.tsv").write_text("".join(pairs[280:315]), encoding="utf-8")
    (folder / "test.tsv").write_text("".join(pairs[315:]), encoding="utf-8")
    text = LINE.format(**{name: folder / f"{name}.tsv" for name in ("train", "valid", "test")})
    (folder / "tiny.yaml").write_text(text, encoding="utf-8")
    return folder / "tiny.yaml"


@pytest.fixture(scope="module")
def home(line: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the line was run without a disturbance; its steps in this process, which has imported all."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(home))
        patch.setattr(running, "_run", lambda command, *_: cli.main(command[3:]))
        assert main([str(line), f"paths.root={home}", "line.where=here"]) == 0
    return home


def command(line: Path, home: Path) -> list[str]:
    return [sys.executable, "-m", "dragoman", "line", str(line), f"paths.root={home}", "line.where=here"]


def made(home: Path, step: str, name: str) -> bytes:
    return next((home / "runs").glob(f"{step}-*")).joinpath(name).read_bytes()


def test_an_unchanged_line_runs_nothing(line: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(line), f"paths.root={home}", "line.where=here"]) == 0
    said = capfd.readouterr().out
    assert said.count("up to date") == 4
    assert "running" not in said


def test_a_changed_variable_runs_what_depends_on_it(line: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = [str(line), f"paths.root={home}", "line.where=here", "vars.words=[train.max_steps=9]", "line.plan=true"]
    assert main(words) == 0
    said = capfd.readouterr().out
    assert "shards: up to date" in said
    assert all(f"{name}: would run" in said for name in ("teacher", "taught", "student"))


def test_the_page_shows_each_step_with_its_state(home: Path) -> None:
    page = (home / "lines" / "tiny" / "line.html").read_text(encoding="utf-8")
    for step in ("shards", "teacher", "taught", "student"):
        assert f'<section id="{step}">' in page
    assert page.count('marker-end="url(#tip)"') == 6
    assert "http-equiv" not in page  # it is at its end


def test_a_line_that_moved_against_its_translation_is_refused(
    line: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "home"
    shutil.copytree(home, copy)
    pairs = next((copy / "corpora").glob("taught-*/pairs.jsonl"))
    lines = pairs.read_text(encoding="utf-8").splitlines()
    pairs.write_text("\n".join([*lines[1:], lines[0]]) + "\n", encoding="utf-8")
    assert main([str(line), f"paths.root={copy}", "line.where=here"]) == 2
    said = capsys.readouterr().err
    assert "pairs.jsonl: was changed after the step taught made it" in said


@pytest.mark.long
@pytest.mark.parametrize("after", ["teacher: running", "taught: running"])
def test_a_killed_line_goes_on_to_the_same_bits(line: Path, home: Path, tmp_path: Path, after: str) -> None:
    killed = subprocess.Popen(command(line, tmp_path), stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    for said in killed.stdout:
        if said.startswith(after):
            break
    time.sleep(1.0)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    found = subprocess.run(command(line, tmp_path), capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr + found.stdout
    assert "shards: up to date" in found.stdout
    for step in ("teacher", "student"):
        assert made(tmp_path, step, WEIGHTS) == made(home, step, WEIGHTS)


def test_a_failed_step_ends_the_line_with_its_last_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text(
        "steps: {a: {shard: [corpus=tsv, corpus.train.file=nosuch.tsv]}, b: {promote: [], after: [a]}}"
    )
    assert main([str(tmp_path / "bad.yaml"), f"paths.root={tmp_path}", "line.where=here"]) == 1
    said = capfd.readouterr()
    assert "a: failed" in said.out
    assert "step a: dragoman shard ended with exit code 2: dragoman shard: " in said.err
    assert "nosuch.tsv" in said.err
    assert "b: running" not in said.out


def test_a_mistake_in_a_later_step_is_named_before_the_first_begins(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "steps: {a: {shard: [corpus=phrasebook]}, b: {train: ['paths.shards=${a.shards}', train.max_stepz=3]}}"
    (tmp_path / "bad.yaml").write_text(text)
    for plan in ("line.plan=false", "line.plan=true"):
        assert main([str(tmp_path / "bad.yaml"), f"paths.root={tmp_path / 'home'}", "line.where=here", plan]) == 2
        said = capfd.readouterr()
        assert "bad.yaml: step b: train: unknown key: 'max_stepz' is not known. Did you mean 'max_steps'?" in said.err
        assert not said.out
    assert not (tmp_path / "home" / "shards").exists()


def test_a_mistake_in_the_file_leaves_nothing_behind(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("steps: {a: {train: [], after: [a]}}")
    assert main([str(tmp_path / "bad.yaml"), f"paths.root={tmp_path / 'home'}"]) == 2
    assert not (tmp_path / "home").exists()
    assert main([str(tmp_path / "bad.yaml"), "vars.words=[a", f"paths.root={tmp_path / 'home'}"]) == 2
    assert "vars.words=[a: is no YAML (" in capfd.readouterr().err


def test_two_processes_do_not_work_on_one_line(line: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    from dragoman.services.lines import line as module

    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    descriptor = os.open(home / "lines" / "tiny" / ".lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert main([str(line), f"paths.root={home}", "line.where=here"]) == 2
    finally:
        os.close(descriptor)
