"""Generated texts through the routes: nothing is broken without a report. `make test-long` sends all of them."""

import random

import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.settings import Limits
from tests.services.endpoint.conftest import Client, Stage
from tests.services.texts.test_generated import COUNT, check_placeholders, markup, tags_of, text_with_placeholders

SAMPLE = 60
AT_ONCE = 5


def check_all(stage: Stage, count: int) -> None:
    stage.endpoint.config.check_language = False
    stage.endpoint.limits = Limits(texts=AT_ONCE)
    stage.batcher.capacity = 1000
    client = Client(create_app(stage.endpoint))
    chance = random.Random(7)
    for _ in range(count // AT_ONCE):
        texts = [text_with_placeholders(chance) for _ in range(AT_ONCE)]
        both = {"source": "en", "target": "de", "report": True}
        answer = client.post("/translate", json={**both, "q": [text for text, _ in texts]}).json()
        for (text, put), found, report in zip(texts, answer["translatedText"], answer["report"], strict=True):
            check_placeholders(text, put, found, report)
        pages = [markup(chance) for _ in range(AT_ONCE)]
        answer = client.post("/translate", json={**both, "q": pages, "format": "html"}).json()
        for page, found in zip(pages, answer["translatedText"], strict=True):
            assert tags_of(found) == tags_of(page), (page, found)
        deepl = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "xml", "ignore_tags": ["code"]}
        answer = client.post("/v2/translate", json={**deepl, "text": pages}).json()
        for page, one in zip(pages, answer["translations"], strict=True):
            assert tags_of(one["text"]) == tags_of(page), (page, one)


def test_a_sample_through_the_routes(stage: Stage) -> None:
    check_all(stage, SAMPLE)


@pytest.mark.long
def test_all_through_the_routes(stage: Stage) -> None:
    check_all(stage, COUNT)
