"""The served models: who answers which pair, what stays in memory."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.model.settings import DecodeConfig
from dragoman.services.models.catalogue import Catalogue, NotServedError
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.origin import Origin
from dragoman.services.models.served import Served


@dataclass
class Shelf:
    """A follower that has loaded its model."""

    model: LoadedModel
    current: LoadedModel | None = None
    error: str | None = None
    loads: int = 0
    woken: int = 0

    def __post_init__(self) -> None:
        self.current = self.model

    def unload(self) -> None:
        self.current = None

    def load_again(self) -> LoadedModel:
        self.loads += 1
        self.current = self.model
        return self.model

    def wake(self) -> None:
        self.woken += 1


def served(pair: str, version: str = "1", weight: float = 0.0, bytes: int = 100, reference: str = "") -> Served:
    source, target = pair.split(">")
    translator: Any = None
    name = f"{source}-{target}"
    model = LoadedModel(translator, DecodeConfig(), Origin(name, version, "run", "abc"), source, target, bytes=bytes)
    return Served(reference or f"models:/{name}/{version}", Shelf(model), weight)


def route(models: Sequence[Served], source: str, target: str, version: str | None = None, **settings: Any) -> str:
    """The names and versions of the models that answer."""
    found = Catalogue(models, **settings).find(source, target, version)
    return " ".join(f"{one.origin.name}/{one.origin.version}" for one in found.models)


@pytest.mark.parametrize(
    ("source", "target", "answers"),
    [
        ("en", "de", "en-de/1"),
        ("EN-us", "de-DE", "en-de/1"),
        ("eng", "deu", "en-de/1"),
        ("en_GB", "pt", "en-pt-BR/1"),
        ("en", "pt_br", "en-pt-BR/1"),
        ("pt-PT", "en", "pt-BR-en/1"),
        ("en", "zho-Hans", "en-zh-Hans/1"),
        ("en", "zh_CN", "en-zh-Hans/1"),
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


def test_versions_share_the_requests_by_weight_and_without_weights_the_first_answers() -> None:
    models = [served("en>de", "1", 3), served("en>de", "2", 1), served("de>en", "1", 0)]
    catalogue = Catalogue(models)
    order = [catalogue.find("en", "de").origin.version for _ in range(8)]
    assert Counter(order) == {"1": 6, "2": 2}
    assert Counter(order[:4]) == {"1": 3, "2": 1}
    assert [one.requests for one in models] == [6, 2, 0]
    assert {route([served("en>de", "1"), served("en>de", "2")], "en", "de") for _ in range(8)} == {"en-de/1"}


@pytest.mark.parametrize(
    "version", ["2", "en-de/2", "models:/en-de/2", "canary", "en-de@canary", "models:/en-de@canary"]
)
def test_a_request_can_name_the_version_that_it_wants(version: str) -> None:
    models = [served("en>de", "1"), served("en>de", "2", reference="models:/en-de@canary")]
    assert route(models, "en", "de", version) == "en-de/2"


def test_a_version_of_one_half_of_a_way_over_the_middle_is_taken() -> None:
    models = [served("fr>en", "1"), served("en>de", "7"), served("en>de", "8")]
    assert route(models, "fr", "de", "8") == "fr-en/1 en-de/8"
    with pytest.raises(NotServedError, match="there are fr-en/1, en-de/7, en-de/8"):
        route(models, "fr", "de", "9")


def test_the_least_used_model_is_unloaded_and_comes_back_when_asked() -> None:
    models = [served("en>de"), served("de>en"), served("fr>en")]
    catalogue = Catalogue(memory=250)
    for one in models:
        catalogue.add(one)
    assert [one.loaded for one in models] == [False, True, True]
    assert sorted(catalogue.view.pairs) == [("de", "en"), ("en", "de"), ("fr", "en")]  # known, though unloaded
    catalogue.find("de", "en")
    assert catalogue.find("en", "de").origin.name == "en-de"
    assert [one.loaded for one in models] == [True, True, False]
    shelf = models[0].place
    assert isinstance(shelf, Shelf) and shelf.loads == 1
    assert models[2].facts() == {
        "reference": "models:/fr-en/1",
        **{"source": "fr", "target": "en", "name": "fr-en", "version": "1", "run_id": "run", "manifest_hash": "abc"},
        **{"weight": 0.0, "loaded": False, "bytes": 100, "requests": 0, "error": None},
    }


def test_the_last_model_stays_however_little_memory_there_is() -> None:
    models = [served("en>de"), served("de>en")]
    catalogue = Catalogue(models, memory=1)
    catalogue.fit()
    assert [one.loaded for one in models] == [False, True]
    catalogue.find("en", "de")
    assert [one.loaded for one in models] == [True, False]


def test_a_model_that_was_never_loaded_is_missing_and_the_others_answer() -> None:
    late = served("de>en")
    late.place.unload()
    catalogue = Catalogue([served("en>de"), late])
    assert catalogue.missing == [late]
    assert catalogue.find("en", "de").via == ""
    with pytest.raises(NotServedError, match="de is not supported"):
        catalogue.find("de", "en")
    catalogue.wake()
    assert isinstance(late.place, Shelf) and late.place.woken == 1


def test_the_network_that_shows_attention_counts_too() -> None:
    models = [served("en>de"), served("de>en")]
    catalogue = Catalogue(models, memory=250)
    aligner: Any = SimpleNamespace(bytes=100)
    shown = replace(models[1].place.current or pytest.fail(), open_aligner=lambda: aligner)
    models[1].place.current = shown  # type: ignore[misc]  # a Shelf's can be set
    catalogue.fit()
    assert [one.loaded for one in models] == [True, True]
    assert shown.aligning.aligner is aligner
    catalogue.fit()
    assert [(one.loaded, one.facts()["bytes"]) for one in models] == [(False, 100), (True, 200)]
