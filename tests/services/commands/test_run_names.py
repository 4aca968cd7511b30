"""`.bundle=RUN`: every command that opens a model takes the name of its run."""

import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.model.runs.paths import BUNDLE
from dragoman.services.verbs import run_verb

TEXT, PAIR, LIST = "the dog sees", "the dog\tder hund", "0 ||| der hund ||| Other= -1.0 ||| -1.0"
# verb, words, standard input, kind of the model, key that names it
VERBS = (
    ("translate", ["decode.beam=2"], TEXT, "translation", "bundle"),
    ("score", [], PAIR, "translation", "bundle"),
    ("score", [], TEXT, "language", "bundle"),
    ("rerank", ["rerank.source=source.txt"], LIST, "translation", "bundle"),
    ("embed", [], TEXT, "translation", "bundle"),
    ("embed", [], TEXT, "masked", "bundle"),
    ("generate", ["generate.max_tokens=4", "generate.seed=1"], TEXT, "language", "bundle"),
    ("predict", ["the", "dog"], "", "language", "bundle"),
    ("predict", ["the [MASK]"], "", "masked", "bundle"),
    ("neighbours", ["king"], "", "vectors", "query.vectors"),
)
NAMES = [f"{verb[0]}-{verb[3]}" for verb in VERBS]
Verb = tuple[str, Sequence[str], str, str, str]


@pytest.fixture
def home(
    bundle: Path,
    language_bundle: Path,
    masked_bundle: Path,
    vectors: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A folder with a run of each kind, in which the command runs."""
    kinds = {"translation": bundle, "language": language_bundle, "masked": masked_bundle, "vectors": vectors}
    for kind, made in kinds.items():
        shutil.copytree(made, tmp_path / "artifacts" / "runs" / f"my-{kind}.v1" / BUNDLE)
    (tmp_path / "artifacts" / "runs" / "unfinished").mkdir()
    (tmp_path / "source.txt").write_text("the dog\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _answer(verb: Verb, model: str, monkeypatch: pytest.MonkeyPatch) -> int:
    name, words, given, _, key = verb
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode() + b"\n")))
    return run_verb(name, [*words, f"{key}={model}"])


@pytest.mark.parametrize("verb", VERBS, ids=NAMES)
def test_a_runs_name_is_its_bundles_path(
    verb: Verb, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = home / "artifacts" / "runs" / f"my-{verb[3]}.v1"
    answers = []
    for model in (run.name, run, run / BUNDLE):
        assert _answer(verb, str(model), monkeypatch) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0].strip()
    assert answers == answers[:1] * 3


@pytest.mark.parametrize("verb", VERBS[::3], ids=NAMES[::3])
def test_a_name_that_nothing_has_is_refused_in_a_line(
    verb: Verb, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("nosuch", "unfinished"):
        assert _answer(verb, name, monkeypatch) == 2
        shown = capsys.readouterr()
        assert not shown.out
        assert len(shown.err.strip().splitlines()) == 1
        assert name in shown.err
        assert "my-" in shown.err or "artifacts/runs" in shown.err, "it says where runs are looked for"
