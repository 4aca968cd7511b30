"""The store of glossaries."""

from pathlib import Path

import pytest

from dragoman.services.endpoint.glossaries import (
    Dictionary,
    Glossaries,
    GlossaryNotFoundError,
    TooManyGlossariesError,
)
from dragoman.services.endpoint.key_store import KeyStore

TERMS = Dictionary("en", "de", {"dog": "Hund"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "endpoint" / "endpoint.db"


def open_store(file: Path, **options: int) -> Glossaries:
    return Glossaries(KeyStore(f"sqlite:///{file}"), **options)


def test_glossaries_survive_a_restart(file: Path) -> None:
    store = open_store(file)
    assert store.list("me") == []
    assert not file.exists()  # nothing is made before it is needed
    made = store.create("me", "pets", [TERMS])
    again = open_store(file)
    assert file.is_file()
    assert again.terms("me", made.id, "en-US", "de-AT") == {"dog": "Hund"}
    assert [one.name for one in again.list("me")] == ["pets"]
    assert again.list("other") == []


def test_terms_are_added_or_put(file: Path) -> None:
    store = open_store(file)
    made = store.create("me", "pets", [TERMS])
    added = store.change("me", made.id, add=[Dictionary("en", "de", {"cat": "Katze"})])
    assert added.find("en", "de").entries == 2
    store.change("me", made.id, put=[Dictionary("en", "de", {"cow": "Kuh"}), Dictionary("de", "en", {"Kuh": "cow"})])
    assert store.terms("me", made.id, "en", "de") == {"cow": "Kuh"}
    assert store.terms("me", made.id, "de", "en") == {"Kuh": "cow"}


def test_without_a_database_nothing_is_stored() -> None:
    with pytest.raises(TooManyGlossariesError, match=r"serve\.database is null"):
        Glossaries().create("me", "pets", [TERMS])
    assert Glossaries().list("me") == []


def test_an_owner_has_a_most(file: Path) -> None:
    store = open_store(file, most=1)
    made = store.create("me", "one", [TERMS])
    with pytest.raises(TooManyGlossariesError, match="1 glossaries already"):
        store.create("me", "two", [TERMS])
    store.create("other", "two", [TERMS])
    store.delete("me", made.id)
    store.create("me", "two", [TERMS])
    with pytest.raises(GlossaryNotFoundError):
        store.get("me", made.id)
