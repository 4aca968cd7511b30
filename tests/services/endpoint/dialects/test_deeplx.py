"""DeepLX's route, which is LibreTranslate's: POST /translate."""

from dragoman.services.endpoint.keys import Keys
from tests.services.endpoint.conftest import Stage


def test_its_fields_tell_it_from_libretranslate(stage: Stage) -> None:
    answer = stage.client.post("/translate", json={"text": "a dog.", "source_lang": "auto", "target_lang": "DE"}).json()
    assert answer["code"] == 200
    assert answer["id"] >= 0
    assert (answer["data"], answer["alternatives"]) == ("A DOG.", ["A DOG.#1", "A DOG.#2"])
    assert (answer["source_lang"], answer["target_lang"]) == ("EN", "DE")
    assert stage.ask(q="a dog", text="x", target_lang="DE").json() == {"translatedText": "A DOG"}


def test_errors_carry_their_code(stage: Stage) -> None:
    answer = stage.client.post("/translate", json={"text": "a dog", "target_lang": "FR"})
    assert (answer.status_code, answer.json()) == (400, {"code": 400, "message": "fr is not supported"})


def test_the_key_is_a_bearer_token_or_in_the_address(stage: Stage) -> None:
    stage.endpoint.keys = Keys(["secret"])
    asked = {"text": "a", "target_lang": "de"}
    assert stage.client.post("/translate", json=asked).json()["code"] == 403
    assert stage.client.post("/translate?token=secret", json=asked).status_code == 200
    assert stage.client.post("/translate", json=asked, headers={"Authorization": "Bearer secret"}).status_code == 200
