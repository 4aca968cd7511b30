"""The served models: who answers which pair."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from dragoman.model.settings import DecodeConfig
from dragoman.services.models.catalogue import Catalogue, NotServedError, Served
from dragoman.services.models.loaded_model import LoadedModel, Origin


@dataclass
class Shelf:
    """A follower that has loaded its model."""

    model: LoadedModel
    error: str | None = None

    def __post_init__(self) -> None:
        self.current: LoadedModel | None = self.model


def served(pair: str, version: str = "1") -> Served:
    source, target = pair.split(">")
    translator: Any = None
    name = f"{source}-{target}"
    model = LoadedModel(translator, DecodeConfig(), Origin(name, version, "run", "abc"), source, target, bytes=100)
    shelf: Any = Shelf(model)
    return Served(f"models:/{name}/{version}", shelf)


def route(models: Sequence[Served], source: str, target: str, **settings: Any) -> str:
    """The names and versions of the models that answer."""
    found = Catalogue(models, **settings).find(source, target)
    return " ".join(f"{one.origin.name}/{one.origin.version}" for one in found.models)


@pytest.mark.parametrize(
    ("source", "target", "answers"),
    [
        ("en", "de", "en-de/1"),
        ("en_GB", "pt", "en-pt-BR/1"),
        ("pt-PT", "en", "pt-BR-en/1"),
        ("zho", "en", "zh-Hans-en/1"),
    ],
)
def test_codes_are_compared_as_languages(source: str, target: str, answers: str) -> None:
    pairs = ("en>de", "de>en", "en>pt-BR", "pt-BR>en", "en>zh-Hans", "zh-Hans>en")
    assert route([served(pair) for pair in pairs], source, target) == answers


@pytest.mark.parametrize(
    ("source", "target", "one"),
    [
        ("de", "de-AT", True),
        ("ger", "deu", True),
        ("en_GB", "en-US", False),
        ("en-US", "en-GB", True),
        ("zh-Hant", "zh", False),
    ],
)
def test_relatives_are_one_language_unless_a_model_translates_between_them(source: str, target: str, one: bool) -> None:
    catalogue = Catalogue([served(pair) for pair in ("de>en", "en>de", "en-GB>en-US")], pivot=True)
    assert catalogue.view.is_one(source, target) is one


def test_a_language_itself_goes_before_its_relatives_and_the_pair_before_the_nearest_source() -> None:
    models = [served("pt-BR>en"), served("pt>en"), served("pt-PT>de")]
    assert route(models, "pt", "en") == "pt-en/1"
    assert route(models, "pt-BR", "en") == "pt-BR-en/1"
    assert route(models, "pt-BR", "de") == "pt-PT-de/1"


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("fr", "de", "fr is not supported"),
        ("en", "xx", "xx is not supported"),
        ("en", "zh-Hant", "zh-Hant is not supported"),
        ("de", "en", "de is not supported"),
    ],
)
def test_what_nobody_translates_is_said(source: str, target: str, message: str) -> None:
    with pytest.raises(NotServedError, match=message):
        route([served("en>de"), served("en>zh-Hans")], source, target)


def test_a_pair_without_a_model_goes_over_a_language_in_the_middle_and_says_which() -> None:
    models = [served("fr>en"), served("en>de"), served("fr>es"), served("es>de")]
    assert route(models, "fr", "de") == "fr-en/1 en-de/1"
    found = Catalogue(models).find("fra", "de-AT")
    assert (found.source, found.target, found.via) == ("fr", "de", "en")
    assert found.headers()["X-Dragoman-Via"] == "en"
    assert found.headers()["X-Model-Name"] == "fr-en+en-de"
    assert route([*models, served("fr>de")], "fr", "de") == "fr-de/1"
    with pytest.raises(NotServedError, match="de is not supported from fr: en, es"):
        route(models, "fr", "de", pivot=False)


def test_every_language_names_what_it_is_translated_into_directly_first() -> None:
    models = [served("fr>en"), served("en>de"), served("de>en")]
    assert dict(Catalogue(models).view.targets) == {"fr": ("en", "de"), "en": ("de",), "de": ("en",)}
    assert dict(Catalogue(models, pivot=False).view.targets) == {"fr": ("en",), "en": ("de",), "de": ("en",)}
    assert Catalogue(models).view.sources("deu") == ("fr", "en")


def test_of_several_models_of_a_pair_the_first_answers() -> None:
    models = [served("en>de", "1"), served("en>de", "2"), served("de>en")]
    catalogue = Catalogue(models)
    assert {catalogue.find("en", "de").origin.version for _ in range(3)} == {"1"}
    assert [one.requests for one in models] == [3, 0, 0]
    assert models[2].facts() == {
        "reference": "models:/de-en/1",
        **{"source": "de", "target": "en", "name": "de-en", "version": "1", "run_id": "run", "manifest_hash": "abc"},
        **{"bytes": 100, "requests": 0, "error": None},
    }


def test_a_model_that_was_never_loaded_is_missing_and_the_others_answer() -> None:
    late = served("de>en")
    late.follower.current = None
    catalogue = Catalogue([served("en>de"), late])
    assert catalogue.missing == [late]
    assert catalogue.find("en", "de").via == ""
    with pytest.raises(NotServedError, match="de is not supported"):
        catalogue.find("de", "en")
