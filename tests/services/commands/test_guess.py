"""`dragoman next` and `fill`: tables, JSON, pictures; texts without a mask and models of the wrong kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.decoding.fill_mask import fill_masks
from dragoman.model.decoding.likely import likely_path
from dragoman.model.errors import UserError
from dragoman.services.commands.guess import fill, next_tokens
from dragoman.services.entries import main
from dragoman.services.settings import GuessConfig


def test_next_prints_each_step_and_draws_it(
    tmp_path: Path, language_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "next.png"
    words = [f"guess.bundle={language_bundle}", "guess.best=3", "guess.steps=2", f"guess.picture={picture}"]
    assert main(["next", "the", "dog", *words]) == 0
    shown = capsys.readouterr().out.splitlines()
    loaded = load_text_bundle(language_bundle)
    steps = likely_path(loaded.language_network, loaded.tokenizer, "the dog", 3, 2)
    assert shown[0] == "the dog"
    assert f"{steps[0].predictions[0].probability:6.4f}" in shown[1]
    assert shown[-1] == f"likeliest: {steps[-1].text}"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_fill_gives_each_mask_its_tokens(masked_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "The [MASK] sees a <mask>"
    assert fill(GuessConfig(bundle=str(masked_bundle), best=4, format="json"), text) == 0
    found = json.loads(capsys.readouterr().out)
    loaded = load_text_bundle(masked_bundle)
    (expected,) = fill_masks(loaded.network, loaded.tokenizer, ["The <mask> sees a <mask>"], 4)
    assert found["text"] == expected.text
    assert [[one["piece"] for one in step["tokens"]] for step in found["steps"]] == [
        [one.piece for one in place] for place in expected.predictions
    ]
    assert [step["text"] for step in found["steps"]] == ["The [1] sees a [MASK]", "The [MASK] sees a [2]"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("The dog barks.", "'The dog barks.' has no [MASK]; write one for each token to guess: dragoman fill"),
        ("a " * 40 + "[MASK]", "the network has 32 positions; shorten it"),
    ],
)
def test_the_command_answers_a_text_that_it_cannot_fill_in_a_line(
    text: str, told: str, masked_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fill", text, f"guess.bundle={masked_bundle}"]) == 2
    shown = capsys.readouterr()
    assert told in shown.err.splitlines()[-1] and not shown.out


@pytest.mark.parametrize(
    ("verb", "text", "changes", "message"),
    [
        (fill, None, {}, r"fill: give a text with a mask; write one for each token"),
        (fill, "The [MASK].", {"bundle": "language"}, "language"),
        (next_tokens, None, {}, "give the beginning of a text"),
        (next_tokens, "The", {"bundle": "masked"}, "masked"),
        (next_tokens, "The", {"best": 0}, "guess.best=0"),
        (next_tokens, "The", {"picture": "a.gif"}, "guess.picture: a.gif: unknown kind of file"),
        (next_tokens, "The", {"picture": "nowhere/a.png"}, "no such folder"),
    ],
)
def test_mistakes_are_named(
    verb: Any, text: str | None, changes: dict[str, Any], message: str, language_bundle: Path, masked_bundle: Path
) -> None:
    bundles = {"language": str(language_bundle), "masked": str(masked_bundle)}
    given = {"bundle": bundles[str(changes.get("bundle", "language"))]}
    with pytest.raises(UserError, match=message):
        verb(GuessConfig(**{**changes, **given}), text)
