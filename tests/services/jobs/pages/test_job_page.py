"""The page of a job: its moments, curves and labels, what it leads to, and its log."""

import re

import httpx

from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.service.logs import clean, cut
from dragoman.services.jobs.states import State
from tests.services.jobs.pages.world import World


def test_a_job_shows_its_tags(world: World, browser: httpx.Client) -> None:
    job = world.job("tagged", State.RUNNING, tags=["paper", "a b"])
    page = browser.get(f"/jobs/{job.id}").text
    assert 'href="/?q=tag%3Dpaper"' in page and 'href="/?q=tag%3Da%20b"' in page


def test_a_job_that_was_refused_has_its_name_and_offers_to_be_mended_first(world: World, browser: httpx.Client) -> None:
    job = world.ledger.submit("anna", "train", ["name=mine", "model=nosuch"], name="mine")
    world.ledger.change(job, State.FAILED, "planner", "model: 'nosuch' is not known")
    page = browser.get(f"/jobs/{job.id}").text
    assert "<title>mine " in page and "is not known" in page
    actions = page.partition('<div class="actions">')[2]
    assert 0 < actions.index("Like this one") < actions.index("Try again")


def test_a_training_that_ended_before_its_steps_promises_no_curves(world: World, browser: httpx.Client) -> None:
    job = world.job("no-steps", State.FAILED)
    (world.home / "runs" / "no-steps" / "steps.jsonl").unlink()
    assert "It ended before its second step." in browser.get(f"/jobs/{job.id}").text


def test_a_copy_of_a_training_gets_a_name_that_resumes_nothing(world: World, browser: httpx.Client) -> None:
    def name(job: Job) -> str:
        page = browser.get(f"/submit?like={job.id}").text
        found = re.search(r'name="name" value="([^"]*)"', page)
        settings = re.search(r"<textarea[^>]*>([^<]*)</textarea>", page)
        assert found is not None and settings is not None and "name=" not in settings[1]
        assert "model.dropout=0.1" in settings[1].split()  # all else is as it was
        return found[1]

    first = world.job("copied", State.SUCCEEDED)
    assert name(first) == "copied-2"
    second = world.job("copied-2", State.FAILED)
    (world.home / "runs" / "copied-3").mkdir()  # a run that no job made
    assert name(first) == name(second) == "copied-4"


def test_a_job_leads_to_its_run_its_shards_and_its_model_version(world: World, browser: httpx.Client) -> None:
    job = world.job("linked", State.SUCCEEDED)
    run = world.home / "runs" / "linked"
    (run / "mlflow.json").write_text('{"run_id": "' + "e" * 32 + '", "server": "x"}')
    release = '{"model": "demo-en-de", "version": "2", "shards": "/data/everyday", "manifest_hash": "9af2a2d1c69c00"}'
    (run / "release.json").write_text(release)
    page = browser.get(f"/jobs/{job.id}").text
    assert "/#/experiments/1/runs/" + "e" * 32 in page
    assert "manifest 9af2a2d1c69c" in page.replace("<wbr>", "")
    assert "/#/models/demo-en-de/versions/2" in page


def test_a_sweep_leads_to_its_trials_and_they_to_their_sweep(world: World, browser: httpx.Client) -> None:
    run, others = "7" * 32, "8" * 32
    trials = [world.job(f"search-00{number}", words=[f"tracking.parent={run}"]) for number in range(3)]
    world.job("search-000", words=[f"tracking.parent={run}", "registry.register=true"])  # the best, registered
    other = world.job("elsewhere-000", words=[f"tracking.parent={others}"])
    page = browser.get(f"/jobs/{trials[1].id}").text
    assert f'href="/?sweep={run}"' in page and "all trials of search" in page.replace("<wbr>", "")
    page = browser.get("/", params={"sweep": run}).text
    assert all(one.id in page for one in trials) and other.id not in page
    assert f"/#/experiments/1/runs/{run}/artifacts" in page
    assert re.findall(r"<b>(\d+)</b></a></li>", page)[:3] == ["4", "0", "4"]  # counted are these alone
    assert "No job is like that" in browser.get("/", params={"sweep": "9" * 32}).text
    assert other.id in browser.get("/", params={"sweep": "%"}).text  # no id: nothing is asked for


def test_a_log_is_read_and_downloaded_without_script(world: World, browser: httpx.Client) -> None:
    job = world.job("logged", State.RUNNING)
    world.write(job, "\x1b[32mone\x1b[0m <of> many\n")
    whole = browser.get(f"/jobs/{job.id}/log.txt")
    assert whole.text.endswith("\x1b[32mone\x1b[0m <of> many\n") and len(whole.text.splitlines()) == 200
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.headers["content-disposition"] == f'inline; filename="{job.id}-a1.log"'
    waiting = world.job("not-logged")
    assert "It has not started" in browser.get(f"/jobs/{waiting.id}").text
    assert browser.get(f"/jobs/{waiting.id}/log.txt").text == ""


def test_a_failed_job_names_the_error_of_its_log(world: World, browser: httpx.Client) -> None:
    job = world.job("erring", State.FAILED)
    assert "The log says" not in browser.get(f"/jobs/{job.id}").text
    world.write(job, "ValueError: it broke\nValueError: and again\n")
    assert "The log says: <code><bdi>ValueError: it broke<" in browser.get(f"/jobs/{job.id}").text
    why = browser.get(f"/v1/jobs/{job.id}/why").json()["text"]
    assert why.endswith("; its log says: ValueError: it broke")


def test_a_log_is_shown_in_whole_lines_without_what_was_written_over() -> None:
    assert cut(b"one\ntwo\nthr", 100, False) == ("one\ntwo\n", 108)
    assert cut(b"one\nthr", 0, True) == ("one\nthr", 7)
    assert clean("10 %\r50 %\r100 %\nnext\r\n\x1b[31mred\x1b[0m") == "100 %\nnext\nred"
