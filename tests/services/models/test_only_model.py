"""A verb that names no model takes the only one of the home; of several it lists the names."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.tracking import server
from dragoman.services.models.home import Home
from dragoman.services.models.registry import ModelVersion, Registry
from dragoman.services.models.source import OnlyChampion, only_model


@pytest.fixture
def home(tmp_path: Path) -> Home:
    for name, kind in (("a", "translation"), ("anna/b", "labels"), ("c", "masked"), ("d", "masked")):
        bundle = tmp_path / "runs" / name / "bundle"
        bundle.mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps({"format_version": 2, "kind": kind, "model": {"head": "x"}}))
    return Home(str(tmp_path / "runs"), str(tmp_path / "cache"), f"sqlite:///{tmp_path}/mlflow.db")


@pytest.fixture
def champions(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the registered translation models, each with a champion."""
    server.make_database(Path(home.tracking.removeprefix("sqlite:///")))
    names: list[str] = []

    def versions(_: Registry, query: str = "") -> list[Any]:
        tags = {"bundle_kind": "translation"}
        return [SimpleNamespace(name=name, version=number, tags=tags) for name in names for number in (2, 1)]

    monkeypatch.setattr(Registry, "list_versions", versions)
    monkeypatch.setattr(Registry, "aliases", lambda _: {(name, "1"): ["champion"] for name in names})
    monkeypatch.setattr(Registry, "resolve", lambda _, reference: ModelVersion(reference, "1"))
    return names


def test_the_only_run_of_a_kind_is_taken(home: Home) -> None:
    assert only_model(home, ["translation"]) == "a"
    assert only_model(home, ["labels", "language"]) == "anna/b"
    with pytest.raises(UserError, match=r"several masked models: c, d; name one with bundle="):
        only_model(home, ["masked"])
    with pytest.raises(UserError, match=r"no language model in .*runs nor in the registry: train one"):
        only_model(home, ["language"])


def test_a_champion_goes_before_the_runs(home: Home, champions: list[str]) -> None:
    assert only_model(home, ["translation"]) == "a"
    champions.append("anna.en-de")
    assert only_model(home, []) == "models:/anna.en-de@champion"
    champions.append("ben.en-de")
    with pytest.raises(UserError, match=r"several translation models: models:/anna.en-de@champion, models:/ben"):
        only_model(home, ["translation"])
    ours = Home(home.runs, home.cache, home.tracking, "ben")
    assert only_model(ours, ["translation"]) == "models:/ben.en-de@champion"


def test_an_endpoint_waits_for_the_only_champion_and_keeps_it(home: Home, champions: list[str]) -> None:
    followed = OnlyChampion(home)
    with pytest.raises(UserError, match="0 translation models have a champion: none"):
        followed.resolve("")
    champions.append("first")
    assert followed.resolve("").name == "models:/first@champion"
    champions.append("second")
    assert followed.resolve("").name == "models:/first@champion"
