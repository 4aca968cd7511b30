"""Following a reference: what is new is loaded, what fails leaves the last good model in place."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.services.models.follower import Follower
from dragoman.services.models.registry import ModelVersion


@dataclass
class Shelf:
    """A registry and a loader in one; a model is its version's number."""

    version: str = "1"
    away: bool = False
    failing: dict[str, Exception] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)

    def resolve(self, reference: str) -> ModelVersion:
        if self.away:
            raise ConnectionError("registry is away")
        return ModelVersion(reference, self.version, f"run{self.version}")

    def load(self, version: ModelVersion) -> Any:
        self.loads.append(version.version)
        if version.version in self.failing:
            raise self.failing[version.version]
        return version.version


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def follower(shelf: Shelf, seconds: float = 0.0) -> Follower[Any]:
    return Follower(shelf, "m", shelf.load, seconds)


def answering(following: Follower[Any]) -> object:
    """The model that answers (here: a version's number)."""
    return following.current


def test_a_moved_alias_brings_the_new_model_and_a_still_one_nothing(shelf: Shelf) -> None:
    following = follower(shelf)
    for version in ("1", "1", "2", "2", "1"):
        shelf.version = version
        following.poll()
        assert answering(following) == version
    assert shelf.loads == ["1", "2", "1"]


def test_a_version_that_fails_leaves_the_last_good_one_and_is_named(shelf: Shelf) -> None:
    shelf.failing = {"2": UserError("weights are torn")}
    following = follower(shelf)
    following.poll()
    shelf.version = "2"
    for _ in range(3):
        following.poll()
        assert answering(following) == "1"
        assert following.error is not None
        assert "weights are torn" in following.error
    assert shelf.loads == ["1", "2"]  # an unsound bundle is not tried again
    for version in ("1", "3"):  # going back clears the error too
        shelf.version = version
        following.poll()
        assert (answering(following), following.error) == (version, None)


@pytest.mark.parametrize(("seconds", "loads"), [(0.0, ["1", "1"]), (1000.0, ["1"])])
def test_what_may_pass_is_tried_again_after_a_pause(shelf: Shelf, seconds: float, loads: list[str]) -> None:
    shelf.failing = {"1": OSError("disk full")}
    following = follower(shelf, seconds)
    following.poll()
    assert answering(following) is None
    shelf.failing = {}
    following.poll()
    assert shelf.loads == loads and (answering(following) == "1") == (following.error is None) == (len(loads) == 2)


def test_a_message_for_people_is_shown_as_it_is(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    following = follower(shelf)

    def refuse(_: str) -> ModelVersion:
        raise UserError("m@champion: nothing is registered yet")

    monkeypatch.setattr(shelf, "resolve", refuse)
    following.poll()
    assert following.error == "m@champion: nothing is registered yet"


def test_a_registry_that_is_away_stops_nothing(shelf: Shelf) -> None:
    following = follower(shelf)
    following.poll()
    shelf.away = True
    following.poll()
    assert answering(following) == "1"
    assert following.error is not None
    assert "away" in following.error
    shelf.away = False
    following.poll()
    assert following.error is None


def test_a_registry_that_is_away_is_logged_once_when_that_lasts(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    following = follower(shelf)
    shelf.away = True
    following.poll()
    following.poll()
    assert not caplog.records, "it may have just been started"
    monkeypatch.setattr("dragoman.services.models.follower.LASTS", 0.0)
    for away in (True, True, False, True):
        shelf.away = away
        following.poll()
    assert [record.levelname for record in caplog.records if record.name.endswith("follower")].count("WARNING") == 2


def test_loading_now_lets_errors_through(shelf: Shelf) -> None:
    shelf.failing = {"1": UserError("torn")}
    with pytest.raises(UserError, match="torn"):
        follower(shelf).load_now()
