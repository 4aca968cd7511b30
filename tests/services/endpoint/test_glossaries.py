"""The store of glossaries."""

from pathlib import Path

import pytest

from services.endpoint.glossaries import (
    FILE,
    Dictionary,
    Glossaries,
    GlossaryNotFoundError,
    TooManyGlossariesError,
)

TERMS = Dictionary("en", "de", {"dog": "Hund"})


def test_glossaries_survive_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = Glossaries(folder)
    assert not folder.exists()  # nothing is made before it is needed
    made = store.create("me", "pets", [TERMS])
    again = Glossaries(folder)
    assert (folder / FILE).is_file()
    assert again.terms("me", made.id, "en-US", "de-AT") == {"dog": "Hund"}
    assert [one.name for one in again.list("me")] == ["pets"]
    assert again.list("other") == []


def test_terms_are_added_or_put() -> None:
    store = Glossaries()
    made = store.create("me", "pets", [TERMS])
    added = store.change("me", made.id, add=[Dictionary("en", "de", {"cat": "Katze"})])
    assert added.find("en", "de").entries == 2
    store.change("me", made.id, put=[Dictionary("en", "de", {"cow": "Kuh"}), Dictionary("de", "en", {"Kuh": "cow"})])
    assert store.terms("me", made.id, "en", "de") == {"cow": "Kuh"}
    assert store.terms("me", made.id, "de", "en") == {"Kuh": "cow"}


def test_an_owner_has_a_most() -> None:
    store = Glossaries(most=1)
    made = store.create("me", "one", [TERMS])
    with pytest.raises(TooManyGlossariesError, match="1 glossaries already"):
        store.create("me", "two", [TERMS])
    store.create("other", "two", [TERMS])
    store.delete("me", made.id)
    store.create("me", "two", [TERMS])
    with pytest.raises(GlossaryNotFoundError):
        store.get("me", made.id)
