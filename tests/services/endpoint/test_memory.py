"""Translation memory: what people translated answers for the model, and says so."""

import time
from pathlib import Path

import httpx
import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.memory import Memory
from dragoman.services.endpoint.memory_store import MemoryStore, Unit
from tests.services.endpoint.conftest import Client, Stage

HELLO = Unit("en", "de", "Good morning, everybody!", "Guten Morgen zusammen!")


@pytest.fixture
def units(store: KeyStore) -> MemoryStore:
    return MemoryStore(store)


def known(units: MemoryStore, fuzzy: float | None = None) -> Memory:
    memory = Memory(units, fuzzy)
    memory.refresh()
    return memory


def test_a_known_text_is_found_however_it_is_spaced_and_its_languages_are_written(units: MemoryStore) -> None:
    assert units.put([HELLO], "a.tmx") == 1
    found = known(units).exact("EN-us", "deu", "  Good  morning,\neverybody! ")
    assert found is not None
    assert found.record() == {
        **{"text": HELLO.text, "translation": HELLO.translation},
        **{"score": 100.0, "origin": "a.tmx"},
    }
    assert known(units).exact("en", "de", "Good morning, everybody") is None
    assert known(units).exact("de", "en", HELLO.text) is None


def test_nothing_is_known_without_a_database(tmp_path: Path, units: MemoryStore) -> None:
    assert known(units, 0.5).exact("en", "de", "x") is None
    assert known(units, 0.5).similar("en", "de", "x") is None
    assert not list(tmp_path.iterdir())


def test_chinese_of_another_script_is_not_taken(units: MemoryStore) -> None:
    units.put([Unit("en", "zh-Hans", "dog", "狗")], "a.tmx")
    memory = known(units)
    assert memory.exact("en", "zh-CN", "dog") is not None
    assert memory.exact("en", "zh-Hant", "dog") is None


def test_the_most_similar_text_above_the_threshold_is_found(units: MemoryStore) -> None:
    units.put([HELLO, HELLO._replace(text="Good morning, everyone!", translation="Guten Morgen alle!")], "a.tmx")
    found = known(units, 0.8).similar("en", "de", "Good morning, everyone")
    assert found is not None and found.translation == "Guten Morgen alle!"
    assert 95 < found.score < 100
    assert known(units, 0.99).similar("en", "de", "Good morning, everyone") is None
    assert known(units, 0.0).similar("en", "de", "x" * 1001) is None


def test_what_is_stored_again_replaces_and_what_is_deleted_is_gone(units: MemoryStore) -> None:
    units.put([HELLO, HELLO._replace(text="Hi")], "a.tmx")
    memory = known(units)
    units.put([HELLO._replace(translation="Moin!")], "b.tmx")
    memory.refresh()
    found = memory.exact("en", "de", HELLO.text)
    assert found is not None and (found.translation, found.origin) == ("Moin!", "b.tmx")
    assert units.counts() == [("en", "de", "", "a.tmx", 1), ("en", "de", "", "b.tmx", 1)]
    assert units.clear("en", "de", "a.tmx") == 1
    memory.refresh()
    assert memory.exact("en", "de", "Hi") is None
    assert memory.exact("en", "de", HELLO.text) is not None


def ask(stage: Stage, **values: object) -> httpx.Response:
    client = Client(create_app(stage.endpoint))
    return client.post("/translate", json={"source": "en", "target": "de", **values})


def test_a_known_text_is_answered_from_memory_and_says_so(stage: Stage, units: MemoryStore) -> None:
    units.put([HELLO], "a.tmx")
    stage.endpoint.memory = known(units)
    answer = ask(stage, q=[f" {HELLO.text}\n", "the man"])
    assert answer.json()["translatedText"] == [f" {HELLO.translation}\n", "THE MAN"]
    match = {"text": HELLO.text, "translation": HELLO.translation, "score": 100.0, "origin": "a.tmx"}
    assert answer.json()["memory"] == [match, None]
    assert stage.translator.lines == ["the man."]
    alone = ask(stage, q=HELLO.text, source="auto")
    assert alone.json()["memory"] == match
    assert "X-Model-Name" not in alone.headers  # no model was asked
    assert "memory" not in ask(stage, q="the man").json()


def test_a_similar_text_is_shown_beside_the_models_answer(stage: Stage, units: MemoryStore) -> None:
    units.put([HELLO], "a.tmx")
    stage.endpoint.memory = known(units, 0.8)
    answer = ask(stage, q="Good morning, everybody").json()
    assert answer["translatedText"] == "GOOD MORNING, EVERYBODY"
    assert (answer["memory"]["translation"], answer["memory"]["score"] > 90) == (HELLO.translation, True)


def test_a_suggestion_answers_from_then_on(stage: Stage, units: MemoryStore) -> None:
    stage.endpoint.memory = known(units)
    client = Client(create_app(stage.endpoint))
    body = {"q": HELLO.text, "s": "Moin!", "source": "en", "target": "de"}
    refused = client.post("/suggest", json=body)
    assert (refused.status_code, refused.json()) == (403, {"error": "Suggestions are disabled on this server."})
    stage.endpoint.config.suggestions = True
    assert client.post("/suggest", json=body).json() == {"success": True}
    assert client.get("/frontend/settings").json()["suggestions"] is True
    answer = ask(stage, q=HELLO.text).json()
    assert (answer["translatedText"], answer["memory"]["origin"]) == ("Moin!", "suggestion")
    page = client.post("/", data={"q": HELLO.text, "source": "en", "target": "de"}, headers={"X-Part": "answer"}).text
    assert "suggestion, 100 % alike" in page
    assert client.post("/suggest", json={**body, "s": "x" * 201}).status_code == 400


def test_a_suggestion_answers_where_the_clock_went_back(units: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = known(units), known(units)
    for number in range(3):
        monkeypatch.setattr(time, "time", lambda number=number: 1e9 - 86400 * number)
        first.suggest(HELLO._replace(translation=str(number)))
        second.refresh()
        for memory in (first, second):
            match = memory.exact("en", "de", HELLO.text)
            assert match is not None and match.translation == str(number)


def test_what_a_key_suggests_answers_that_key_alone(stage: Stage, units: MemoryStore, store: KeyStore) -> None:
    anna, other = store.add("anna"), store.add("other")
    units.put([HELLO], "a.tmx")
    stage.read_keys(store)
    stage.endpoint.memory, stage.endpoint.config.suggestions = known(units), True
    client = Client(create_app(stage.endpoint))
    client.post("/suggest", json={"q": HELLO.text, "s": "Moin!", "source": "en", "target": "de", "api_key": anna})
    assert ask(stage, q=HELLO.text, api_key=anna).json()["translatedText"] == "Moin!"
    assert ask(stage, q=HELLO.text, api_key=other).json()["translatedText"] == HELLO.translation
