"""Keys, known translations and the ledger of jobs in one database, on sqlite and on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from dragoman.model.errors import UserError
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.glossaries import Dictionary, Glossaries
from dragoman.services.endpoint.key_store import KeyStore, Period, Tables
from dragoman.services.endpoint.keys import Keys, month_of
from dragoman.services.endpoint.memory import Memory
from dragoman.services.endpoint.memory_store import MemoryStore, Unit
from dragoman.services.http.rates import digest_of
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.store import database as store
from tests.services.endpoint.conftest import Client, Stage
from tests.services.endpoint.test_keys import check
from tests.services.jobs.conftest import postgres, url

__all__ = ["postgres", "url"]  # fixtures
TABLES = Path(__file__).parent / "tables"


def run_sql(url: str, *statements: str) -> None:
    database = store.Database(url, "test")
    with database.write() as session:
        for statement in statements:
            session.execute(text(statement))
    database.close()


def made_by_0_2_0(url: str) -> list[str]:
    """The statements by which version 0.2.0 has made its tables."""
    script = (TABLES / f"0.2.0-{'sqlite' if url.startswith('sqlite') else 'postgresql'}.sql").read_text()
    return [one for one in script.partition("\n\n")[2].split(";\n") if one.strip()]


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


@pytest.mark.parametrize("glossaries", [True, False])
def test_a_database_of_version_0_2_0_is_upgraded_with_all_that_it_holds(url: str, glossaries: bool) -> None:
    made = [one for one in made_by_0_2_0(url) if glossaries or "glossar" not in one]
    key = f"INSERT INTO api_keys VALUES ('{digest_of('secret')}', 'anna', 1.0, NULL, 100, NULL, NULL, 1)"
    used = f"INSERT INTO api_usage VALUES ('{digest_of('secret')}', '2026-11', 40, 2)"
    known = (
        "INSERT INTO translation_memory (owner, source, target, digest, text, translation, origin, changed) "
        "VALUES ('', 'en', 'de', 'd', 'the dog', 'der Hund', 'a.tmx', 1.0)"
    )
    run_sql(url, *made, key, used, known)
    with closing(KeyStore(url)) as keys:
        assert [(one.name, one.priority) for one in keys.all()] == [("anna", 1)]
        assert keys.months(digest_of("secret")) == [Period(digest_of("secret"), "2026-11", 40, 2)]
        memory = Memory(MemoryStore(keys))
        memory.refresh()
        found = memory.exact("en", "de", "the dog")
        assert found is not None and found.translation == "der Hund"
        stored = Glossaries(keys).create("o", "terms", [Dictionary("en", "de", {"dog": "Hund"})])
        assert Glossaries(keys).terms("o", stored.id, "en", "de") == {"dog": "Hund"}
    assert differences(url) == []


def test_a_database_of_a_newer_program_is_refused(url: str) -> None:
    with closing(KeyStore(url)) as keys:
        keys.open()
    run_sql(url, "UPDATE endpoint_version SET version_num = '9999_tomorrow'")
    with closing(KeyStore(url)) as keys, pytest.raises(UserError, match=r"^serve\.database: .* newer Dragoman .*9999"):
        keys.open()
    Database(url).close()  # the ledger beside it counts its versions by itself


def test_the_endpoint_keeps_its_tables_beside_the_ledger(url: str) -> None:
    ledger = Database(url)
    store = KeyStore(url)
    secret = store.add("anna", characters=100, languages=["en", "de"])
    keys = Keys(store=store)
    keys.exchange()
    key = check(keys, secret, 60, ("en", "de"))
    keys.exchange()
    check(keys, secret, 40)
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


GLOSSARY = {"name": "pets", "source_lang": "EN", "target_lang": "DE", "entries": "dog\tHund", "entries_format": "tsv"}
SUGGESTION = {"q": "the dog", "s": "der Hund", "source": "en", "target": "de"}
LONG = "en-" + "-".join(["abcdefgh"] * 5)


def storing(stage: Stage, keys: KeyStore) -> Client:
    stage.endpoint.glossaries, stage.endpoint.memory = Glossaries(keys), Memory(MemoryStore(keys))
    stage.endpoint.config.suggestions = True
    return Client(create_app(stage.endpoint))


def test_no_database_gets_what_only_some_can_store(stage: Stage, url: str) -> None:
    with closing(KeyStore(url)) as keys:
        client = storing(stage, keys)
        assert client.post("/suggest", json=SUGGESTION).status_code == 200
        for wrong in ({"q": "the\0dog"}, {"s": "\0"}, {"source": LONG}, {"target": "fr"}, {"source": "de"}):
            assert client.post("/suggest", json={**SUGGESTION, **wrong}).status_code == 400, wrong
        made = client.post("/v2/glossaries", json=GLOSSARY).json()["glossary_id"]
        assert client.post("/v2/glossaries", json={**GLOSSARY, "name": "a\0b"}).status_code == 400
        renamed = client.request("PATCH", f"/v3/glossaries/{made}", json={"name": "a\0b"})
        assert (renamed.status_code, list(renamed.json())) == (400, ["message"])
        for name in ("\0", "no-id"):
            asked = {"q": "the dog runs", "source": "en", "target": "de", "glossary": name}
            assert client.post("/translate", json=asked).status_code == 400
            deepl = {"text": "dog", "source_lang": "EN", "target_lang": "DE", "glossary_id": name}
            assert client.post("/v2/translate", json=deepl).status_code == 404
        assert client.post("/translate", json={**asked, "glossary": made}).status_code == 200


def test_a_database_that_is_away_is_said_in_each_dialect(stage: Stage, url: str) -> None:
    with closing(KeyStore(url)) as keys:
        client = storing(stage, keys)
        made = client.post("/v2/glossaries", json=GLOSSARY).json()["glossary_id"]
        run_sql(url, "DROP TABLE glossary_dictionaries", "DROP TABLE glossaries", "DROP TABLE translation_memory")
        asked = {"q": "the dog runs", "source": "en", "target": "de", "glossary": made}
        google = {"contents": ["dog"], "sourceLanguageCode": "en", "targetLanguageCode": "de"}
        for path, body, field in (
            ("/translate", asked, "error"),
            ("/suggest", SUGGESTION, "error"),
            ("/v2/glossaries", GLOSSARY, "message"),
            ("/v3/projects/p:translateText", {**google, "glossaryConfig": {"glossary": made}}, "error"),
        ):
            answer = client.post(path, json=body)
            assert (answer.status_code, list(answer.json())) == (503, [field]), path
        assert answer.json()["error"]["status"] == "UNAVAILABLE"
        assert client.post("/translate", json={**asked, "glossary": None}).status_code == 200
