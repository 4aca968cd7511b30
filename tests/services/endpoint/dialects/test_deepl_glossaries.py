"""DeepL's glossaries: made, shown, changed and deleted through both versions."""

from typing import Any

import pytest

from dragoman.services.endpoint.glossaries import Glossaries
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.keys import Keys
from tests.services.endpoint.conftest import Stage

UNKNOWN = "96ab91fd-e715-41a1-adeb-5d701f84a483"
PAIR = {"source_lang": "en", "target_lang": "de"}


@pytest.fixture(autouse=True)
def database(stage: Stage, store: KeyStore) -> None:
    stage.endpoint.glossaries = Glossaries(store)


def make(stage: Stage, entries: str = "dog\tHund\ncat\tKatze", form: str = "tsv", **values: Any) -> Any:
    asked = {"name": "pets", **PAIR, "entries": entries, "entries_format": form, **values}
    return stage.client.post("/v2/glossaries", json=asked)


def test_a_glossary_is_stored_and_read_back(stage: Stage) -> None:
    made = make(stage)
    assert made.status_code == 201
    found = made.json()
    assert {**PAIR, "name": "pets", "ready": True, "entry_count": 2}.items() <= found.items()
    place = f"/v2/glossaries/{found['glossary_id']}"
    assert stage.client.get(place).json() == found
    assert stage.client.get("/v2/glossaries").json() == {"glossaries": [found]}
    entries = stage.client.get(f"{place}/entries")
    assert entries.text == "dog\tHund\ncat\tKatze"
    assert entries.headers["content-type"].startswith("text/tab-separated-values")
    assert stage.client.request("DELETE", place).status_code == 204
    assert stage.client.get(place).json() == {"message": "Glossary not found"}


def test_csv_has_quotes_and_may_name_the_languages(stage: Stage) -> None:
    made = make(stage, 'dog,Hund,en,de\n"say ""hi""","sag, hallo"', "csv").json()
    assert stage.client.get(f"/v2/glossaries/{made['glossary_id']}/entries").text == 'dog\tHund\nsay "hi"\tsag, hallo'


def test_tbx_gives_the_terms_of_the_languages(stage: Stage) -> None:
    section = '<langSec xml:lang="{}"><termSec><term>{}</term></termSec></langSec>'
    entry = "".join(section.format(*one) for one in (("en", "dog"), ("de", "Hund"), ("fr", "chien")))
    tbx = f'<tbx type="TBX-Basic"><text><body><conceptEntry>{entry}</conceptEntry></body></text></tbx>'
    made = make(stage, tbx, "tbx").json()
    assert stage.client.get(f"/v2/glossaries/{made['glossary_id']}/entries").text == "dog\tHund"
    assert "has no term from en to de" in make(stage, tbx.replace('"de"', '"it"'), "tbx").json()["message"]


@pytest.mark.parametrize(
    ("entries", "form", "message"),
    [
        ("dog", "tsv", "line 1 has 1 columns"),
        ("dog\tHund\ndog\tKöter", "tsv", "line 2 repeats"),
        ("dog\t", "tsv", "line 1 has an empty term"),
        ("\n\n", "tsv", "there are no entries"),
        ("do\x07g\tHund", "tsv", "line 1 has a control character"),
        ('"dog,Hund', "csv", "not CSV"),
        ("\n" * 20_001, "tsv", "more than 20,000 lines"),
        ("".join(f"{n}\tx\n" for n in range(10_001)), "tsv", "more than 10,000 terms"),
        (f"{'a' * 2000}\tx", "tsv", "line 1 has a term of 2,000 characters"),
    ],
)
def test_wrong_entries_are_named(stage: Stage, entries: str, form: str, message: str) -> None:
    answer = make(stage, entries, form)
    assert answer.status_code == 400
    assert message in answer.json()["message"]


def test_pairs_that_are_not_served_are_refused(stage: Stage) -> None:
    assert make(stage, target_lang="fr").json() == {"message": "Unsupported glossary source and target language pair"}
    assert stage.client.get("/v2/glossary-language-pairs").json() == {"supported_languages": [PAIR]}


def test_version_three_changes_dictionaries(stage: Stage) -> None:
    dictionary = {**PAIR, "entries": "dog\tHund", "entries_format": "tsv"}
    made = stage.client.post("/v3/glossaries", json={"name": "pets", "dictionaries": [dictionary]}).json()
    assert made["dictionaries"] == [{**PAIR, "entry_count": 1}]
    place = f"/v3/glossaries/{made['glossary_id']}"
    added = {"name": "beasts", "dictionaries": [{**dictionary, "entries": "cat\tKatze\ndog\tKöter"}]}
    changed = stage.client.request("PATCH", place, json=added).json()
    assert (changed["name"], changed["dictionaries"]) == ("beasts", [{**PAIR, "entry_count": 2}])

    def entries() -> Any:
        return stage.client.get(f"{place}/entries?source_lang=en&target_lang=DE").json()

    assert entries() == {"dictionaries": [{**dictionary, "entries": "dog\tKöter\ncat\tKatze"}]}
    put = stage.client.request("PUT", f"{place}/dictionaries", json={**dictionary, "entries": "cow\tKuh"})
    assert put.json() == {**PAIR, "entry_count": 1}
    assert entries()["dictionaries"][0]["entries"] == "cow\tKuh"
    assert stage.client.request("DELETE", f"{place}/dictionaries?source_lang=en&target_lang=de").status_code == 204
    assert stage.client.get(place).json()["dictionaries"] == []
    assert stage.client.get(f"/v2/glossaries/{made['glossary_id']}").status_code == 404  # it has not one dictionary


def test_unknown_glossaries_are_404_and_no_ids_are_400(stage: Stage) -> None:
    for version in ("v2", "v3"):
        for place, code in ((UNKNOWN, 404), ("no-id", 400)):
            assert stage.client.get(f"/{version}/glossaries/{place}").status_code == code
            assert stage.client.request("DELETE", f"/{version}/glossaries/{place}").status_code == code
    answer = stage.client.post("/v2/translate", json={"text": "a", **PAIR, "glossary_id": UNKNOWN})
    assert (answer.status_code, answer.json()) == (404, {"message": "Glossary not found"})


def test_a_glossary_is_seen_with_its_makers_key_only(stage: Stage) -> None:
    stage.endpoint.keys = Keys(["one", "two"])
    mine, other = ({"Authorization": f"DeepL-Auth-Key {key}"} for key in ("one", "two"))
    asked = {"name": "pets", **PAIR, "entries": "a\tb", "entries_format": "tsv"}
    made = stage.client.post("/v2/glossaries", json=asked, headers=mine).json()
    place = f"/v2/glossaries/{made['glossary_id']}"
    assert stage.client.request("GET", place, headers=mine).status_code == 200
    assert stage.client.request("GET", place, headers=other).status_code == 404


def test_a_large_glossary_passes_the_limit_of_bodies(stage: Stage) -> None:
    entries = "\n".join(f"source {number}\ttarget {number}" for number in range(1000))
    assert make(stage, entries).json()["entry_count"] == 1000


def test_the_dictionaries_of_a_form_are_a_list(stage: Stage) -> None:
    """As deepl-node sends them."""
    form = {"name": "g"}
    for number, terms in enumerate(("dog\tHund", "cat\tKatze")):
        fields = {**PAIR, "entries": terms, "entries_format": "tsv"}
        form |= {f"dictionaries[{number}].{name}": value for name, value in fields.items()}
    made = stage.client.post("/v3/glossaries", data={name: form[name] for name in form if "[1]" not in name})
    assert made.status_code == 201, made.text
    assert made.json()["dictionaries"] == [{**PAIR, "entry_count": 1}]
    place = f"/v3/glossaries/{made.json()['glossary_id']}"
    more = {name.replace("[1]", "[0]"): value for name, value in form.items() if "[1]" in name}
    changed = stage.client.request("PATCH", place, data=more)
    assert changed.json()["dictionaries"] == [{**PAIR, "entry_count": 2}]
    assert stage.client.post("/v3/glossaries", data={"name": "g", "dictionaries[x].entries": "a"}).status_code == 400
