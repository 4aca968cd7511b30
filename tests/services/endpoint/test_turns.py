"""Clients take turns, by key or by address: many requests of one leave the others theirs. Over a running app."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx
import pytest

from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.keys import Keys
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.settings import Limits
from tests.services.endpoint.conftest import Client, Shouting, only_model, served

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


class Asked(NamedTuple):
    text: str
    key: str = ""
    address: str = "10.0.0.1"


@dataclass
class Line:
    """An endpoint that translates line by line, once all requests have come."""

    endpoint: Endpoint
    translator: Shouting
    batcher: "Batcher[LoadedModel, str, Any]"

    def ask(self, *asked: Asked) -> list[httpx.Response]:
        """Sends the requests in this order, and returns the answers in the same."""

        async def send() -> list[httpx.Response]:
            app, tasks = create_app(self.endpoint), []
            for one in asked:
                seen = self.count
                transport = httpx.ASGITransport(app, client=(one.address, 1))
                client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
                body = {"q": one.text, "source": "en", "target": "de", "api_key": one.key}
                tasks.append(asyncio.create_task(client.post("/translate", json=body)))
                while self.count == seen and not tasks[-1].done():  # until it is in the queue, or refused
                    await asyncio.sleep(0.001)
            self.translator.open.set()
            return list(await asyncio.gather(*tasks))

        return asyncio.run(send())

    @property
    def order(self) -> list[str]:
        """Returns the texts in the order of their translation."""
        return [line.rstrip(".").lower() for line in self.translator.lines]

    count = 0


@pytest.fixture
def line() -> Iterator[Line]:
    translator = Shouting()
    batcher: Batcher[LoadedModel, str, Any] = Batcher(LoadedModel.translate, limit=1, capacity=8)
    batcher.start()
    model = served(translator)
    queue = InferenceQueue(batcher, lambda: model, timeout=30)
    limits = Limits(characters=200, texts=9)
    found = Line(Endpoint(only_model(queue), queue, limits=limits), translator, batcher)  # type: ignore[arg-type]  # a stand-in
    asking = batcher.ask

    async def counted(engine: LoadedModel, items: Sequence[str], *more: Any, **named: Any) -> Any:
        found.count += 1
        return await asking(engine, items, *more, **named)

    batcher.ask = counted  # type: ignore[method-assign, assignment]
    yield found
    translator.open.set()
    batcher.stop(60)


def test_addresses_take_turns_however_many_requests_each_has(line: Line) -> None:
    crowd = [Asked(word) for word in WORDS[:5]]
    answers = line.ask(*crowd, Asked("dog", address="10.0.0.2"), Asked("cat", address="2001:db8::1"))
    assert {one.status_code for one in answers} == {200}
    assert line.order == ["one", "dog", "cat", "two", "three", "four", "five"]


def test_addresses_of_one_ipv6_network_are_one_client(line: Line) -> None:
    crowd = [Asked(word, address=f"2001:db8::{number}") for number, word in enumerate(WORDS[:4])]
    line.ask(*crowd, Asked("dog", address="2001:db8:0:1::1"))
    assert line.order == ["one", "dog", "two", "three", "four"]


def test_keys_take_turns_from_whatever_address(line: Line, store: KeyStore) -> None:
    anna, ben = store.add("anna"), store.add("ben")
    line.endpoint.keys = Keys(store=store)
    line.endpoint.keys.exchange()
    annas = [Asked(word, anna, f"10.0.0.{number}") for number, word in enumerate(WORDS[:4])]
    line.ask(*annas, *[Asked(word, ben) for word in ("dog", "cat", "cow", "hen")])
    assert line.order == ["one", "dog", "two", "cat", "three", "cow", "four", "hen"]


def test_who_fills_the_queue_makes_room_for_others(line: Line) -> None:
    crowd = [Asked(word) for word in WORDS[:9]]  # one is translated, eight wait
    answers = line.ask(*crowd, Asked("dog", address="10.0.0.2"), Asked("ten"))
    assert [one.status_code for one in answers] == [200] * 8 + [429, 200, 429]
    assert answers[8].headers["Retry-After"] and "dog" in line.order
    refused = line.endpoint.metrics.telemetry.registry.get_sample_value
    assert refused("dragoman_refused_total", {"reason": "queue_full"}) == 2


def test_refusals_by_a_keys_limits_are_counted_by_themselves(line: Line, store: KeyStore) -> None:
    line.translator.open.set()
    few, slow = store.add("few", characters=3), store.add("slow", requests=1)
    line.endpoint.keys = Keys(store=store)
    line.endpoint.keys.exchange()
    answers = line.ask(Asked("four", few), Asked("a", slow), Asked("b", slow), Asked("c", "no key"))
    assert [one.status_code for one in answers] == [429, 200, 429, 403]

    headers = {"Authorization": f"DeepL-Auth-Key {few}"}
    body = {"text": ["four"], "source_lang": "EN", "target_lang": "DE"}
    deepl = Client(create_app(line.endpoint)).post("/v2/translate", json=body, headers=headers)
    assert deepl.status_code == 456
    value = line.endpoint.metrics.telemetry.registry.get_sample_value
    counted = {one: value("dragoman_refused_total", {"reason": one}) for one in ("quota", "rate", "key", "queue_full")}
    assert counted == {"quota": 2, "rate": 1, "key": 1, "queue_full": 0}
    assert value("dragoman_refused_total", {"reason": "invalid"}) == 0
