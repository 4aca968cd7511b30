"""The pages of shards: what is listed and shown, and what no name leads to."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.model.shards.verify import verify_once
from dragoman.services.jobs.ledger.tables import Job, Place
from dragoman.services.jobs.states import State
from tests.markup import HOSTILE as HOSTILE_TEXTS
from tests.markup import check_nothing_runs
from tests.services.jobs.pages.world import HOSTILE, World
from tests.text_shards import write_text_shards

TEXTS = [(f"the dog number {number} sleeps", f"der Hund Nummer {number} schläft") for number in range(250)]
SPLITS = {"train": [*TEXTS[:240], ("a rare giraffe eats", "eine seltene Giraffe frisst")], "valid": TEXTS[240:]}
FACTS: dict[str, Any] = {
    "sources": [{"name": "train.tsv", "split": "train", "sha256": "5e" * 32, "bytes": 2048, "lines": 250}],
    "dropped": {"train": {"untranslated": 7, "repeated": 2}, "valid": {"empty": 1}},
}


@pytest.fixture(scope="module")
def folder(world: World) -> Path:
    made = write_text_shards(world.home / "shards" / "books", SPLITS, **FACTS)
    job = made_by(world, made, "anna")
    user = world.ledger.job(world.job("base", State.SUCCEEDED).id)
    place = {"key": "paths.shards", "value": "x", "path": str(made.resolve()), "use": "read"}
    change(world, user, plan={**(user.plan or {}), "places": [place]})
    assert job.run.endswith("/shards/books")
    return made


def made_by(world: World, folder: Path, owner: str) -> Job:
    """A shard job that wrote the folder."""
    job = world.ledger.submit(owner, "shard", ["seed=1"])
    place = Place(path=str(folder.resolve()), owner=owner, job=job.id)
    with world.ledger.database.write() as session:
        session.merge(place)
    return change(world, job, run=f"shards {folder.resolve()}", state=State.SUCCEEDED)


def change(world: World, job: Job, **values: Any) -> Job:
    with world.ledger.database.write() as session:
        found = session.get(Job, job.seq)
        assert found is not None
        for key, value in values.items():
            setattr(found, key, value)
    return world.ledger.job(job.id)


def plain(page: str) -> str:
    """Returns a page's text in one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.replace("<wbr>", "")))


def test_shards_are_listed_with_what_they_hold_and_who_made_them(
    world: World, browser: httpx.Client, folder: Path
) -> None:
    page = browser.get("/shards").text
    assert 'href="/shards/books"' in page
    for words in ("books en-de", "241", "words", "/jobs/"):
        assert words in plain(page) or words in page, words
    assert "books" in browser.get("/shards?q=en-de").text
    assert "No shards have that" in browser.get("/shards?q=giraffe").text
    (world.home / "shards" / "begun").mkdir()
    made_by(world, world.home / "shards" / "begun", "anna")
    assert "unfinished" in browser.get("/shards").text
    assert "sharding has not finished" in browser.get("/shards/begun").text


def test_a_page_shows_sources_what_was_dropped_and_who_used_them(
    world: World, browser: httpx.Client, folder: Path
) -> None:
    page = browser.get("/shards/books").text
    said = plain(page)
    for words in ("train.tsv", "sha256 " + "5e" * 32, "Dropped from valid: empty 1"):
        assert words in said, words
    assert "untranslated 7 2.800&nbsp;%" in said  # of 250
    assert "train base" in said and "demo-en-de" in said  # the job and the model that used them
    (user,) = re.findall(r'href="(/jobs/[^"]*)"><bdi>base', page)
    (maker,) = re.findall(r"Made by job</dt><dd><a href=\"(/jobs/[^\"]*)\"", page)
    assert all('<dt>Shards</dt><dd><a href="/shards/books">' in browser.get(one).text for one in (user, maker))
    assert "not since they were made" in said
    verify_once(world.home / "shards" / "books", world.home / "verified")
    assert "every byte," in plain(browser.get("/shards/books").text)


@pytest.mark.parametrize(
    "name",
    ["..", "%2e", "../service", "books/../../service", "%2e%2e/service", "/etc", "linked", "none", "a\0b", "x" * 300],
)
def test_no_name_leads_out_of_the_shards(world: World, browser: httpx.Client, folder: Path, name: str) -> None:
    linked = world.home / "shards" / "linked"
    if not linked.is_symlink():
        linked.symlink_to(world.home / "service")
    (world.home / "service" / "manifest.json").write_text((folder / "manifest.json").read_text())
    path = "/shards/" + name.replace("\0", "%00").replace("..", "%2e%2e")
    answer = browser.get(path)
    assert answer.status_code in (404, 422)
    assert "linked" not in browser.get("/shards").text


def test_a_manifest_that_is_a_link_is_not_followed(world: World, browser: httpx.Client, tmp_path: Path) -> None:
    made = write_text_shards(world.home / "shards" / "tricky", SPLITS, **FACTS)
    (made / "manifest.json").rename(tmp_path / "manifest.json")
    (made / "manifest.json").symlink_to(tmp_path / "manifest.json")
    page = browser.get("/shards/tricky").text
    assert "is a link" in page and "train.tsv" not in page


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format_version": 1}', "[" * 100_000, '{"format_version": 1, "splits": 3}']
)
def test_a_damaged_manifest_is_said_in_the_list_and_on_the_page(
    world: World, browser: httpx.Client, content: str
) -> None:
    made = world.home / "shards" / f"damaged-{len(content)}"
    made.mkdir()
    (made / "manifest.json").write_text(content)
    assert "its manifest cannot be read" in browser.get("/shards").text
    answer = browser.get(f"/shards/{made.name}")
    assert answer.status_code == 200 and "manifest.json" in answer.text


def test_whatever_a_corpus_holds_its_page_is_strict_html(world: World, browser: httpx.Client) -> None:
    texts = [one.encode("utf-8", "replace").decode().replace("\0", "") for one in HOSTILE_TEXTS]
    words = [one for text in texts for one in text.split()]
    pairs = [(one, other) for one, other in zip(words, reversed(words), strict=True)]
    write_text_shards(
        world.home / "shards" / "hostile",
        {"train": pairs},
        dropped={"train": {HOSTILE: 3}},
        warnings=["".join(texts)],
        sources=[{"name": HOSTILE, "sha256": "".join(texts), "lines": 1}],
        corpus=HOSTILE,
    )
    for path in ("/shards", "/shards/hostile"):
        page = browser.get(path).text
        check_nothing_runs(page)
        assert HOSTILE not in page


def test_nobody_sees_another_owners_shards(empty: World) -> None:
    tokens = empty.tokens(ben="viewer")
    for name, owner in (("annas", "anna"), ("bens", "ben")):
        made_by(empty, write_text_shards(empty.home / "shards" / name, SPLITS), owner)
    write_text_shards(empty.home / "shards" / "everybodys", SPLITS)
    with empty.visit("") as client:
        assert client.get("/shards/bens").url.path == "/login"
        client.post("/login", data={"token": tokens["ben"]})
        page = client.get("/shards").text
        assert "bens" in page and "everybodys" in page and "anna" not in page
        assert client.get("/shards/bens").status_code == 200
        assert client.get("/shards/annas").status_code == 404
        assert client.get("/shards/bens/../annas").status_code == 404
