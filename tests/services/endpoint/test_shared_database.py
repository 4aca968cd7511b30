"""Keys and the ledger of jobs in one database, on sqlite and on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from dragoman.model.errors import UserError
from dragoman.services.endpoint.key_store import KeyStore, Period, Tables
from dragoman.services.endpoint.keys import Keys, month_of
from dragoman.services.http.rates import digest_of
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.store import database as store
from tests.services.endpoint.test_keys import check
from tests.services.jobs.conftest import postgres, url

__all__ = ["postgres", "url"]  # fixtures


def run_sql(url: str, *statements: str) -> None:
    database = store.Database(url, "test")
    with database.write() as session:
        for statement in statements:
            session.execute(text(statement))
    database.close()


def differences(url: str) -> list[object]:
    """Where the tables are others than the models describe; the ledger's are not looked at."""
    database = store.Database(url, "test")
    options = {"compare_type": True, "include_name": lambda name, kind, _: kind != "table" or name in Tables.metadata}
    with database.engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection, opts=options), Tables.metadata)
    database.close()
    return list(found)


def test_migrations_make_the_tables_that_the_models_describe(url: str) -> None:
    with closing(KeyStore(url)) as keys:
        keys.open()
    assert differences(url) == []


def test_a_database_of_another_version_is_refused(url: str) -> None:
    with closing(KeyStore(url)) as keys:
        keys.open()
    run_sql(url, "UPDATE endpoint_version SET version_num = '9999_tomorrow'")
    refusal = r"^serve\.database: .* another version of Dragoman \(tables 9999_tomorrow"
    with closing(KeyStore(url)) as keys, pytest.raises(UserError, match=refusal):
        keys.open()
    Database(url).close()  # the ledger beside it counts its versions by itself


def test_the_endpoint_keeps_its_tables_beside_the_ledger(url: str) -> None:
    ledger = Database(url)
    store = KeyStore(url)
    secret = store.add("anna", characters=100)
    keys = Keys(store=store)
    keys.exchange()
    key = check(keys, secret, 60)
    keys.exchange()
    check(keys, secret, 40)
    keys.exchange()
    assert keys.usage(key) == (100, 100)
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
