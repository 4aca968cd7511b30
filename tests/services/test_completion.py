"""Shell completion of verbs, sections, keys and choices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.services import cli
from dragoman.services.completion import answer

REPOSITORY = Path(__file__).resolve().parents[2]


def query(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str = "bash") -> str:
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert answer([f"query={shell}"], cli.VERBS) == 0
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dragoman tr", "train translate"),
        ("dragoman submit tr", "train translate"),
    ],
)
def test_verbs_are_completed(
    line: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(line, monkeypatch, capsys) == expected


def test_all_verbs_are_offered_at_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert query("dragoman ", monkeypatch, capsys, "fish").splitlines() == list(cli.VERBS)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dragoman train model=transformer_t", "model=transformer_tiny"),
        ("dragoman submit train model=transformer_bi", "model=transformer_big"),
        ("dragoman train model=transformer_big train.max_s", "train.max_steps="),
        ("dragoman neighbours dog cat on", "on_error="),
        ("dragoman train cor", "corpus. corpus="),
        ("dragoman train model=rnnenc model.ce", "model.cell="),
    ],
)
def test_keys_and_choices_are_completed(
    line: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in query(line, monkeypatch, capsys)


def test_unknown_shells_and_actions_are_refused() -> None:
    for words in (["install=tcsh"], ["explode=bash"], []):
        with pytest.raises(UserError):
            answer(words, {})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer([f"install={shell}"], {}) == 0
    assert "dragoman --shell-completion query=" in capsys.readouterr().out


def test_bash_completes_a_verb_and_a_choice_in_earnest(tmp_path: Path) -> None:
    program = tmp_path / "dragoman"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dragoman.services.cli "$@"\n')
    program.chmod(0o755)
    script = """
eval "$(dragoman --shell-completion install=bash)"
complete_line() { COMP_LINE=$1; COMP_POINT=${#1}; COMPREPLY=(); _dragoman; printf '%s\\n' "${COMPREPLY[@]}"; }
complete_line "dragoman prom"
complete_line "dragoman train model=transformer_t"
"""
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=REPOSITORY,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["promote", "model=transformer_tiny"]
