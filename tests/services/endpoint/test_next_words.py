"""A translation is forced to begin with a prefix, and the words that may follow it are offered."""

import pytest

from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.memory import Memory
from dragoman.services.endpoint.memory_store import MemoryStore, Unit
from dragoman.services.endpoint.next_words import next_word
from tests.services.endpoint.conftest import Stage

PREFIX = "I SEE"


def test_a_prefix_is_continued_by_each_next_word_once(stage: Stage) -> None:
    answer = stage.ask(q="I see A4.", prefix=PREFIX)  # the model sees this name as it is
    assert answer.status_code == 400 and "no translation that begins with" in answer.json()["error"]  # and loses it
    answer = stage.ask(q="I see a dog.", prefix=PREFIX)
    assert answer.json() == {"translatedText": "I SEE A DOG."}
    answer = stage.ask(q="I see a dog.", prefix=f" {PREFIX} ", alternatives=2)
    assert answer.json() == {"translatedText": "I SEE A DOG.", "alternatives": ["I SEE THE DOG.", "I SEE, DOG."]}
    assert answer.headers["X-Model-Name"] == "demo"
    assert stage.ask(q="I see a dog.", prefix="", alternatives=1).json()["translatedText"] == "A DOG."


def test_the_model_is_asked_even_where_the_memory_knows_the_text(stage: Stage, store: KeyStore) -> None:
    text = "I see a dog."
    MemoryStore(store).put([Unit("en", "de", text, "KEPT")], "file")
    stage.endpoint.memory = Memory(MemoryStore(store))
    assert stage.ask(q=text).json()["translatedText"] == "KEPT"
    assert stage.ask(q=text, prefix=PREFIX).json()["translatedText"] == "I SEE A DOG."


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"q": ["I see a dog."]}, "prefix needs one text"),
        ({"format": "html"}, "prefix needs one text"),
        ({"report": True}, "prefix needs one text"),
        ({"alignment": "1"}, "prefix needs one text"),
        ({"terms": {"dog": "DOG"}}, "prefix needs one text"),
        ({"glossary": "x"}, "prefix needs one text"),
        ({"q": "I see a dog. It sleeps."}, "prefix needs a text of one sentence"),
        ({"q": "I see {dog} here."}, "prefix needs a text of one sentence"),
        ({"q": "..."}, "prefix needs a text of one sentence"),
        ({"prefix": 3}, "prefix must be a string"),
    ],
)
def test_what_cannot_have_a_prefix_is_refused_with_a_reason(
    stage: Stage, values: dict[str, object], message: str
) -> None:
    answer = stage.ask(**{"q": "I see a dog.", "prefix": PREFIX, **values})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("text", "prefix", "word"),
    [
        ("Der Hund schläft.", "Der", "Hund"),
        ("Der Hund schläft.", "", "Der"),
        ("Der Hund schläft.", "Der Hund schläft", "."),
        ("Der Hund schläft.", "Der Hund schläft.", ""),
        ("Der Hund schläft.", "Der Hu", None),
        ("Der Hund schläft.", "Die", None),
        ("我看见狗。", "我", "看见狗"),
    ],
)
def test_the_next_word_begins_behind_whole_words(text: str, prefix: str, word: str | None) -> None:
    assert next_word(text, prefix) == word
