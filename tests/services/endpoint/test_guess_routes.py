"""POST /next and /fill: the answers of the commands over HTTP, and what is refused."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.decoding.likely import fill_steps, likely_path
from dragoman.model.errors import UserError
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.queues import guesser
from dragoman.services.settings import Limits, ServeConfig
from tests.services.endpoint.conftest import Client


def ask(bundle: Path | None, path: str, **values: Any) -> httpx.Response:
    """Asks an endpoint that serves the bundle, without a socket."""
    with guesser(ServeConfig(model=None, guesser=None if bundle is None else str(bundle))) as queue:
        endpoint = Endpoint(None, None, Limits(neighbours=5, characters=100), guesser=queue)
        return Client(create_app(endpoint)).post(path, json=values)


def test_next_is_the_path_of_the_command(language_bundle: Path) -> None:
    answer = ask(language_bundle, "/next", q="the dog", k=3, steps=2)
    assert answer.status_code == 200, answer.text
    loaded = load_text_bundle(language_bundle)
    steps = likely_path(loaded.language_network, loaded.tokenizer, "the dog", 3, 2)
    found = answer.json()
    assert found["text"] == steps[-1].text
    assert [step["text"] for step in found["steps"]] == [step.text for step in steps]
    assert found["steps"][0]["tokens"][0] == pytest.approx(steps[0].predictions[0]._asdict())
    assert answer.headers["X-Run-Id"] == "l" * 32


def test_fill_gives_each_masks_tokens(masked_bundle: Path) -> None:
    answer = ask(masked_bundle, "/fill", q="The [MASK] barks", k=2)
    assert answer.status_code == 200, answer.text
    loaded = load_text_bundle(masked_bundle)
    steps, text = fill_steps(loaded.network, loaded.tokenizer, "The [MASK] barks", 2)
    assert answer.json()["text"] == text
    assert [one["piece"] for one in answer.json()["steps"][0]["tokens"]] == [one.piece for one in steps[0].predictions]


@pytest.mark.parametrize(
    ("served", "path", "values", "code", "message"),
    [
        ("masked", "/fill", {"q": "The dog"}, 400, "q has no [MASK]"),
        ("masked", "/fill", {"q": "[MASK] " * 14}, 200, ""),
        ("masked", "/fill", {"q": "[MASK]" + " a" * 40}, 400, "the network has 32 positions"),
        ("masked", "/next", {"q": "The dog"}, 400, "the model is a masked model: ask /fill"),
        ("language", "/fill", {"q": "The [MASK]"}, 400, "the model is a language model: ask /next"),
        ("language", "/next", {}, 400, "q"),
        ("language", "/next", {"q": "a" * 101}, 400, "exceeds text limit (100)"),
        ("language", "/next", {"q": "a", "k": 6}, 400, "k"),
        (None, "/next", {"q": "a"}, 404, "serve.guesser"),
    ],
)
def test_what_cannot_be_answered_is_named(
    served: str | None,
    path: str,
    values: dict[str, Any],
    code: int,
    message: str,
    language_bundle: Path,
    masked_bundle: Path,
) -> None:
    bundles = {"language": language_bundle, "masked": masked_bundle}
    answer = ask(bundles[served] if served else None, path, **values)
    assert answer.status_code == code, answer.text
    assert message in answer.text


def test_a_bundle_of_another_kind_is_refused(bundle: Path) -> None:
    with (
        pytest.raises(UserError, match=r"holds a bundle of the kind translation\. Choices: language, masked"),
        guesser(ServeConfig(model=None, guesser=str(bundle))),
    ):
        pass
