"""Keys, known translations and the ledger of jobs in one database, on sqlite and on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from services.endpoint.key_store import KeyStore, Period, digest_of
from services.endpoint.keys import Keys, month_of
from services.endpoint.memory import Memory
from services.endpoint.memory_store import MemoryStore, Unit
from services.jobs.ledger.database import Database
from tests.services.jobs.conftest import postgres, url

__all__ = ["postgres", "url"]  # fixtures


def test_the_endpoint_keeps_its_tables_beside_the_ledger(url: str) -> None:
    ledger = Database(url)
    store = KeyStore(url)
    secret = store.add("anna", characters=100, languages=["en", "de"])
    keys = Keys(store=store)
    keys.exchange()
    key = keys.check(secret, 60, ("en", "de"))
    keys.exchange()
    keys.check(secret, 40)
    keys.exchange()
    assert keys.usage(key) == (100, 100)
    memory = MemoryStore(store)
    units = [Unit("en", "de", f"text {number}", "x") for number in range(1200)]
    assert memory.put(units, "a.tmx") == 1200
    memory.put([units[0]._replace(translation="y")], "b.tmx")
    known = Memory(memory, 0.9)
    known.refresh()
    found = known.exact("en", "de", "text 0")
    assert found is not None and (found.translation, found.origin) == ("y", "b.tmx")
    assert memory.clear("en", "de", "a.tmx") == 1199
    store.close()
    ledger.close()
    Database(url).close()  # the ledger still knows its tables


def test_many_servers_count_at_once_and_lose_nothing(url: str) -> None:
    month = month_of(1_790_000_000)

    def count(_: int) -> None:
        with closing(KeyStore(url)) as store:
            for _ in range(5):
                store.exchange([Period("d", month, 3, 1)], [month], since=month)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4)))
    with closing(KeyStore(url)) as store:
        assert store.months("d") == [Period("d", month, 60, 20)]
        assert store.months(digest_of("other")) == []
