"""Prompts in, texts out: files, standard input, a terminal; the prompt as a person types it."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.conf import compose
from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.decoding.generation import generate
from dragoman.model.errors import UserError
from dragoman.model.settings import GenerateConfig
from dragoman.services.commands.generate import continue_texts
from dragoman.services.entries import main, verbatim
from dragoman.services.models.home import Home, root_of
from dragoman.services.settings import ContinueConfig

PROMPTS = ["the dog", "", "where is my", "ЖЖ"]

ROOT = root_of("generate", ContinueConfig)


def run(tmp_path: Path, bundle: Path, content: bytes | None = None, **settings: Any) -> list[str]:
    values: dict[str, Any] = {"bundle": str(bundle), "output": str(tmp_path / "out"), "max_tokens": 12}
    if content is not None:
        (tmp_path / "in").write_bytes(content)
        values["input"] = str(tmp_path / "in")
    assert continue_texts(ContinueConfig(**{**values, **settings})) == 0
    return (tmp_path / "out").read_text(encoding="utf-8").splitlines()


def expected(bundle: Path, prompts: list[str], **settings: Any) -> list[str]:
    """prompt + continuation of each sample, by the model itself."""
    loaded = load_text_bundle(bundle)
    config = GenerateConfig(**{"max_tokens": 12, **settings})
    found = generate(loaded.language_network, loaded.tokenizer, prompts, config)
    return [prompt + one.text for prompt, texts in zip(prompts, found, strict=True) for one in texts]


def test_a_prompt_a_line_gives_a_line_a_sample(
    tmp_path: Path, language_bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = "".join(f"{prompt}\n" for prompt in PROMPTS).encode()
    wanted = expected(language_bundle, PROMPTS, samples=2)
    assert run(tmp_path, language_bundle, content, samples=2) == wanted
    assert "2 tokens of the prompts are not in the model's vocabulary" in caplog.text
    assert run(tmp_path, language_bundle, content, samples=2, at_once=1) == wanted
    bare = run(tmp_path, language_bundle, content, samples=2, echo=False)
    prompts = [prompt for prompt in PROMPTS for _ in range(2)]
    assert [prompt + text for prompt, text in zip(prompts, bare, strict=True)] == wanted


def test_json_says_how_likely_and_whether_it_ended(tmp_path: Path, language_bundle: Path) -> None:
    settings: dict[str, Any] = {"samples": 2, "temperature": 0.8, "seed": 3}
    lines = run(tmp_path, language_bundle, b"the dog\n\xff\na\n", format="json", on_error="skip", **settings)
    records = [json.loads(line) for line in lines]
    assert [record["line"] for record in records] == [0, 0, 1, 2, 2]
    assert records[2] == {"line": 1, "error": "not UTF-8"}
    kept = [record for record in records if "error" not in record]
    assert [one["prompt"] + one["text"] for one in kept] == expected(language_bundle, ["the dog", "a"], **settings)
    assert all(one["log_probability"] < 0 and 1 <= one["tokens"] <= 12 for one in kept)
    assert all(one["ended"] == (one["tokens"] < 12) or one["tokens"] == 12 for one in kept)


def test_several_lines_stand_apart(tmp_path: Path, language_bundle: Path) -> None:
    found = run(tmp_path, language_bundle, prompt="a\\nthe", lines=0, samples=2)
    assert "\n".join(found) == "\n\n".join(expected(language_bundle, ["a\nthe"], lines=0, samples=2)).rstrip("\n")


class Terminal(io.StringIO):
    """A terminal that remembers what was written and when it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.shown.append(self.getvalue())


@pytest.mark.parametrize("settings", [{}, {"lines": 0}, {"echo": False, "samples": 2}])
def test_a_terminal_sees_each_token_as_it_comes(
    language_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    config = ContinueConfig(bundle=str(language_bundle), prompt="the dog", max_tokens=12, **settings)
    assert continue_texts(config) == 0
    whole = terminal.getvalue()
    monkeypatch.undo()
    assert len(set(terminal.shown)) > 2
    assert all(whole.startswith(part) for part in terminal.shown)
    assert whole.splitlines() == run(tmp_path, language_bundle, prompt="the dog", **settings)


def test_standard_input_goes_to_standard_output(
    language_bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the dog\na\n")))
    assert continue_texts(ContinueConfig(bundle=str(language_bundle), max_tokens=12)) == 0
    assert capsys.readouterr().out.splitlines() == expected(language_bundle, ["the dog", "a"])


@pytest.mark.parametrize(
    "prompt",
    [
        "To be, or not: to be [x] {y}",
        "it's",
        'she said "no"',
        "back\\",
        "${seed} $5",
        "  a  ",
    ],
)
def test_a_prompt_reaches_the_model_as_it_was_typed(prompt: str) -> None:
    values = compose.values(verbatim([f"generate.prompt={prompt}", "generate.top_k=3"]), ROOT)
    config = compose.typed(ROOT, values).generate
    assert (config.prompt, config.top_k) == (prompt, 3)


def test_what_is_quoted_for_the_configuration_stays_so() -> None:
    for words in (["generate.prompt='a, b'"], ["generate.prompt=null"], ["generate.prompt="], ["generate.seed=1"]):
        assert verbatim(words) == words
    assert compose.typed(ROOT, compose.values(["generate.prompt="], ROOT)).generate.prompt == ""


def test_mistakes_are_named(
    tmp_path: Path, language_bundle: Path, bundle: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    mistakes: list[tuple[Path, bytes | None, dict[str, Any], str]] = [
        (
            bundle,
            None,
            {"prompt": "a"},
            "a bundle of the kind 'translation'; one of the kind 'language' is needed here",
        ),
        (vectors, None, {"prompt": "a"}, "a bundle of the kind 'vectors'; one of the kind 'language' is needed here"),
        (
            language_bundle,
            b"a\n",
            {"prompt": "a"},
            r"input: a file of prompts, or generate\.prompt, not both",
        ),
        (language_bundle, None, {"input": "none"}, r"input: none cannot be read"),
        (language_bundle, b"a\n\xff\n", {}, r"in, line 2: not UTF-8 .*on_error=skip"),
        (language_bundle, None, {"prompt": "a", "home": Home(device="cuda")}, "torch sees no GPU here; set it to cpu"),
    ]
    for model, content, settings, message in mistakes:
        with pytest.raises(UserError, match=message):
            run(tmp_path, model, content, **settings)
    with pytest.raises(UserError, match=r"no language model in .* nor in the registry"):
        continue_texts(ContinueConfig(prompt="a"))
    assert not (tmp_path / "out").exists()


def test_the_verb_ends_with_an_exit_code(
    language_bundle: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [f"bundle={language_bundle}", "generate.prompt=the dog, a", "generate.max_tokens=3"]
    assert main(["generate", *words]) == 0
    assert capsys.readouterr().out.startswith("the dog, a")
    assert main(["generate", *words, "generate.temperatur=1"]) == 2
    assert "Did you mean 'temperature'?" in capsys.readouterr().err
