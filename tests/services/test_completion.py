"""Shell completion of verbs, keys, choices and values."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.config import Config as PipelinesConfig
from dragoman.services import cli
from dragoman.services.choices import choices
from dragoman.services.completion import answer
from dragoman.services.config import Config as ServicesConfig

REPOSITORY = Path(__file__).resolve().parents[2]


def query(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str = "bash") -> str:
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert answer([f"query={shell}"], list(cli.VERBS)) == 0
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dragoman tr", "train translate"),
        ("dragoman ro", "rollback"),
        ("dragoman xyz", ""),
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
        ("dragoman serve serve.bu", "serve.bundle="),
        ("dragoman submit train model=transformer_bi", "model=transformer_big"),
        ("dragoman train model=transformer_big train.max_s", "train.max_steps="),
        ("dragoman neighbours dog cat query.on", "query.on_error="),
        ("dragoman score score.to", "score.tokens="),
        ("dragoman rerank rerank.nbest=x rerank.tu", "rerank.tune="),
        ("dragoman export text export.out", "export.output="),
        ("dragoman train cor", "corpus. corpus="),
        ("dragoman train nonsense=1 corpus.tra", "corpus.train."),
        ("dragoman train model=rnnenc model.ce", "model.cell="),
        ("dragoman train train.max_steps=", "train.max_steps=8000"),
        ("dragoman train experiment=de", "experiment=demo"),
        ("dragoman train ~tra", "~tracking ~train ~translate"),
    ],
)
def test_keys_and_choices_are_completed(
    line: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in query(line, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dragoman train train.early_stopping.metric=", "none loss bleu"),
        ("dragoman promote promote.metric=b", "bleu"),
        ("dragoman train registry.register=", "true false"),
        ("dragoman submit train cluster.backend=l", "local"),
        ("dragoman neighbours dog query.method=", "3cosadd 3cosmul"),
    ],
)
def test_values_of_enumerations_are_completed(
    line: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{line.rpartition(' ')[2].partition('=')[0]}={value}" for value in expected.split()]
    assert query(line, monkeypatch, capsys).split() == words
    assert query(line, monkeypatch, capsys, "fish").splitlines() == words


def test_the_values_that_are_offered_are_those_that_the_sections_take() -> None:
    asked = 0
    for root in (PipelinesConfig, ServicesConfig):
        for section, hint in get_type_hints(root).items():
            for key, kind in get_type_hints(hint).items() if dataclasses.is_dataclass(hint) else ():
                if get_origin(kind) is Literal:
                    assert choices(f"{section}.{key}") == [str(value) for value in get_args(kind)], f"{section}.{key}"
                    asked += 1
    assert asked > 20
    assert choices("train.max_steps") == choices("train.nothing") == choices("nothing") == []


def test_unknown_shells_and_actions_are_refused() -> None:
    for words in (["install=tcsh"], ["explode=bash"], []):
        with pytest.raises(UserError):
            answer(words, [])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_and_a_way_back(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer([f"install={shell}"], []) == 0
    assert "dragoman --shell-completion query=" in capsys.readouterr().out
    assert answer([f"uninstall={shell}"], []) == 0


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
