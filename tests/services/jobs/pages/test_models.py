"""A model's page: what its evaluation left, the endpoint's state, and moving the served alias."""

import re

import httpx
import pytest
from sqlalchemy import select

from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import models
from dragoman.services.jobs.service.tracking import Model, Move
from dragoman.services.jobs.states import State
from tests.services.jobs.pages.test_shards import SPLITS, change, made_by, plain
from tests.services.jobs.pages.world import HOSTILE, PIXEL, World, csrf
from tests.text_shards import write_text_shards

PAGE = "/models/demo-en-de"


def newest(world: World) -> Job:
    with world.ledger.database.read() as session:
        found = session.scalars(select(Job).order_by(Job.seq.desc()).limit(1)).first()
        assert found is not None
        return found


def newest_id(world: World) -> str | None:
    with world.ledger.database.read() as session:
        return session.scalar(select(Job.id).order_by(Job.seq.desc()).limit(1))


def test_samples_and_pictures_of_the_run_stand_on_the_page(browser: httpx.Client) -> None:
    page = browser.get(PAGE).text
    assert "Ein Hund läuft." in page and HOSTILE not in page and "&lt;script&gt;alert(1)" in page
    pictures = re.findall(r'<img src="([^"]+)"', page)
    assert pictures == [f"{PAGE}/pictures/attention?version=2", f"{PAGE}/pictures/maps?version=2"]
    answer = browser.get(pictures[0])
    assert answer.content == PIXEL and answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert browser.get(pictures[1]).status_code == 404  # what MLflow sends is no PNG
    for word in ("errors.png", "..%2Fattention", "%2Fetc%2Fpasswd", "samples", "http:%2F%2Fevil.example"):
        assert browser.get(f"{PAGE}/pictures/{word}?version=2").status_code == 404
    assert browser.get(f"{PAGE}/pictures/attention?version=9").status_code == 404
    assert browser.get("/models/none/pictures/attention").status_code == 404


def test_a_picture_that_is_too_large_is_left_out(browser: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "LARGEST_PICTURE", len(PIXEL) - 1)
    assert browser.get(f"{PAGE}/pictures/attention").status_code == 404
    monkeypatch.setattr(models, "LARGEST", 10)
    assert "Ein Hund läuft." not in browser.get(PAGE).text


def test_the_page_compares_the_alias_with_what_the_endpoint_answers(world: World, browser: httpx.Client) -> None:
    said = "The alias champion is version 2; the endpoint answers with version"
    try:
        for version, kind in (("2", "good"), ("1", "warn")):
            world.serve({"name": "demo-en-de", "version": version})
            page = browser.get(PAGE).text
            assert f"{said} {version} ." in plain(page).replace(f"{version}.", f"{version} .")
            assert f'class="notice {kind}"' in page
        world.serve({"name": "other", "version": "5"})
        assert "the endpoint serves other version 5, not this model" in plain(browser.get(PAGE).text)
        world.others.away = True  # type: ignore[attr-defined]
        assert "the endpoint answers 503" in browser.get(PAGE).text
    finally:
        world.others.away = False  # type: ignore[attr-defined]
        world.serve({"name": "demo-en-de", "version": "2"})


def test_a_version_is_promoted_after_a_question_by_a_job_with_its_gate(world: World, browser: httpx.Client) -> None:
    write_text_shards(world.home / "shards" / "en de, 'quoted'", SPLITS)
    write_text_shards(world.home / "shards" / "other", SPLITS, languages=["en", "fr"])
    page = browser.get(f"{PAGE}?version=1").text
    assert f'href="{PAGE}/promote?version=1"' in page and f"{PAGE}/promote?version=2" not in page
    before = newest_id(world)
    asked = browser.get(f"{PAGE}/promote?version=1").text
    assert "Promote this version?" in asked and "the champion is version 2" in asked
    assert newest_id(world) == before  # asking submits nothing
    assert "quoted" in asked and ">other" not in asked
    sent = {"csrf": csrf(asked), "version": "1", "shards": "en de, 'quoted'"}
    assert browser.post(f"{PAGE}/promote", data={**sent, "csrf": "x"}).status_code == 403
    assert browser.post(f"{PAGE}/promote", data={**sent, "version": "7"}).status_code == 400
    assert browser.post(f"{PAGE}/promote", data={**sent, "shards": "../service"}).status_code == 404
    assert browser.post(f"{PAGE}/remove", data=sent).status_code == 404
    assert newest_id(world) == before
    answer = browser.post(f"{PAGE}/promote", data=sent)
    job = newest(world)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job.id}?done=submit")
    folder = (world.home / "shards" / "en de, 'quoted'").resolve()
    assert (job.verb, job.words) == (
        "promote",
        ["registry.name=demo-en-de", "promote.version=1", f'paths.shards="{folder}"'],
    )
    planned = world.loop.intake.plan(job.owner, job.verb, job.words, world.loop.capacity, admin=True)
    assert planned["model"] == "demo-en-de"
    assert str(folder) in [place["path"] for place in planned["places"]]


def test_a_promotion_is_named_after_its_model_and_leads_to_it(world: World, browser: httpx.Client) -> None:
    job = world.ledger.submit("anna", "promote", ["registry.name=demo-en-de"])
    world.ledger.change(job, State.PLANNED, "planner", "planned", model="demo-en-de")
    page = browser.get(f"/jobs/{job.id}").text.replace("<wbr>", "")
    assert "<bdi>promote demo-en-de</bdi></h1>" in page and '<a href="/models/demo-en-de">' in page
    assert re.search(rf'href="/jobs/{job.id}"[^>]*><bdi>demo-en-de<', browser.get("/").text.replace("<wbr>", ""))


def test_a_first_champion_has_nothing_to_go_back_to() -> None:
    first, second = Move("promoted", "1", "", "", "", ""), Move("promoted", "2", "1", "", "", "")
    assert not Model("m", {"champion": "1"}, [first]).earlier
    assert not Model("m", {"champion": "1"}, [Move("refused", "2", "1", "", "", ""), first]).earlier
    assert Model("m", {"champion": "2"}, [second, first]).earlier


def test_a_rollback_is_asked_for_with_its_reason(world: World, browser: httpx.Client) -> None:
    asked = browser.get(f"{PAGE}/rollback").text
    assert "Roll back?" in asked
    reason = """it says "no", (and 'yes')"""
    browser.post(f"{PAGE}/rollback", data={"csrf": csrf(asked), "reason": reason})
    job = newest(world)
    assert job.verb == "rollback"
    planned = world.loop.intake.plan(job.owner, job.verb, job.words, world.loop.capacity, admin=True)
    assert planned["changed"]["promote.reason"] == reason


def test_a_promotion_that_fails_says_why_on_the_page(world: World, browser: httpx.Client) -> None:
    job = world.job("gate", State.FAILED)
    world.write(job, "demo-en-de: not better: BLEU 20.00 against 21.00, p = 0.4; version 2 stays\n")
    change(world, job, verb="promote", model="demo-en-de")
    said = plain(browser.get(PAGE).text)
    assert "not better: BLEU 20.00 against 21.00, p = 0.4; version 2 stays" in said


def test_only_the_owner_of_a_model_and_admins_move_its_alias(empty: World) -> None:
    tokens = empty.tokens(anna="submitter", eve="viewer", ben="submitter")
    empty.loop.intake.ownership.names.claim("demo-en-de", "anna")
    made_by(empty, write_text_shards(empty.home / "shards" / "annas", SPLITS), "anna")
    with empty.visit("") as client:
        for name, code in (("eve", 403), ("ben", 400)):
            client.post("/login", data={"token": tokens[name]})
            page = client.get(f"{PAGE}?version=1").text
            assert "promote?version=1" not in page
            assert ("role submitter" in page) == (name == "eve") and ("or an admin move" in page) == (name == "ben")
            sent = {"csrf": csrf(page), "version": "1"}
            assert client.post(f"{PAGE}/promote", data=sent).status_code == code
            assert client.post(f"{PAGE}/rollback", data=sent).status_code == code
        assert "Ein Hund" not in page and "<img" not in page  # texts of anna's corpus
        assert client.get(f"{PAGE}/pictures/attention").status_code == 404
        assert "annas" not in client.get(f"{PAGE}/promote?version=1").text  # ben's choices
        client.post("/login", data={"token": tokens["anna"]})
        asked = client.get(f"{PAGE}/promote?version=1").text
        assert "annas" in asked
        assert "Ein Hund" in client.get(PAGE).text
        assert client.get(f"{PAGE}/pictures/attention").status_code == 200
        answer = client.post(f"{PAGE}/promote", data={"csrf": csrf(asked), "version": "1", "shards": "annas"})
        assert answer.status_code == 200 and newest(empty).owner == "anna"


def test_members_of_a_project_promote_its_model_in_the_project(empty: World) -> None:
    tokens = empty.tokens(ben="submitter")
    empty.loop.intake.projects.create("speech", "", "root")
    empty.loop.intake.projects.enter("speech", "ben", "member", "root")
    empty.loop.intake.ownership.names.claim("demo-en-de", "project speech", "anna")
    with empty.visit(tokens["ben"]) as client:
        asked = client.get(f"{PAGE}/promote?version=1").text
        assert "Ein Hund" in client.get(PAGE).text
        assert client.post(f"{PAGE}/promote", data={"csrf": csrf(asked), "version": "1"}).status_code == 200
        assert (newest(empty).owner, newest(empty).project) == ("ben", "speech")
