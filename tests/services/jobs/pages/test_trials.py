"""Pages of trials: settings, scores and the best, what they depend on, search, order, CSV; 1,000 of them."""

import csv
import io
import json
import math
import random
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from sqlalchemy import insert, update

from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages.trial_pictures import Axis, over_time, pictures
from dragoman.services.jobs.pages.trial_shares import compute_shares
from dragoman.services.jobs.pages.trials import Trial, read_measures
from dragoman.services.jobs.states import State
from tests.services.jobs.pages.world import World

RUN = "5" * 32


def journal(world: World, name: str, losses: Sequence[float], **more: float) -> None:
    run = world.home / "runs" / name
    run.mkdir(parents=True, exist_ok=True)
    lines = [{"step": 100 * place, "valid_loss": loss, **more} for place, loss in enumerate(losses, 1)]
    (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def trial(number: int, score: float, state: State = State.SUCCEEDED, **settings: object) -> Trial:
    values = {key: str(value) for key, value in settings.items()}
    return Trial(f"j-{number}", f"s-{number:03d}", state, float(number), 1.0, None, {"valid_loss": [score]}, values)


@pytest.fixture(scope="module")
def trials(world: World) -> list[Job]:
    found = []
    for number, (rate, losses, state) in enumerate(
        [
            ("0.001", [3.0, 2.5, 2.75], State.SUCCEEDED),
            ("0.01", [2.0, 1.5], State.FAILED),  # the best value, of a trial that did not end well
            ("0.1", [4.0, 3.5, 3.25], State.SUCCEEDED),
            ("0.3", [9.0], State.RUNNING),
            ("0.5", [], State.WAITING),
        ]
    ):
        name = f"search-{number:03d}"
        words = [f"tracking.parent={RUN}", f"train.optimizer.lr={rate}", "model.width=64", "registry.register=false"]
        found.append(world.job(name, state, words=words))
        journal(world, name, losses, valid_bleu=10.0 * number)
    world.job("search-000", words=[f"tracking.parent={RUN}", "train.optimizer.lr=0.001", "registry.register=true"])
    return found


def rows(page: str) -> list[list[str]]:
    """Returns the cells of the table, without markup."""
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.S)
    ]


def test_a_sweep_has_a_row_per_trial_with_the_best_on_top(browser: httpx.Client, trials: list[Job]) -> None:
    page = browser.get("/trials", params={"sweep": RUN}).text
    found = rows(page)
    assert [row[0] for row in found] == ["search-000", "search-002", "search-001", "search-003", "search-004"]
    assert [row[1] for row in found] == ["2.5 (best)", "3.25", "1.5", "9", "–"]
    assert [row[3] for row in found] == ["0.001", "0.1", "0.01", "0.3", "0.5"]  # and no setting that all have alike
    assert re.findall(r'<tr class="chosen"><td><a href="/jobs/([^"]+)"', page) == [trials[0].id]
    assert "<bdi>search</bdi>" in page and "5 trials" in page and "model.width" not in page
    assert f'href="/submit?like={trials[0].id}"' in page
    best = re.search(r'href="/compare\?([^"]*)">Compare the best', page)
    assert best is not None and best[1].count("job=") == 4 and best[1].startswith(f"job={trials[0].id}&")


def test_the_measure_is_the_sweeps_or_the_one_that_is_asked_for(
    world: World, browser: httpx.Client, trials: list[Job]
) -> None:
    page = browser.get("/trials", params={"sweep": RUN, "by": "valid_bleu"}).text
    assert [row[1] for row in rows(page)] == ["20 (best)", "0", "30", "10", "–"]  # higher is better
    world.others.metrics = {RUN: "valid_bleu"}  # type: ignore[attr-defined]  # the sweep's run in MLflow
    world.stop()
    world.start()  # MLflow is asked once
    try:
        assert rows(browser.get("/trials", params={"sweep": RUN}).text)[0][:2] == ["search-002", "20 (best)"]
        assert rows(browser.get("/trials", params={"sweep": RUN, "by": "none"}).text)[0][1] == "20 (best)"
    finally:
        del world.others.metrics  # type: ignore[attr-defined]  # as above


def test_trials_are_sorted_and_searched(browser: httpx.Client, trials: list[Job]) -> None:
    def found(**asked: str) -> list[str]:
        page = browser.get("/trials", params={"sweep": RUN, "by": "valid_loss", **asked}).text
        return [row[0][-1] for row in rows(page)] if "<tbody>" in page else []

    assert found(sort="train.optimizer.lr") == ["0", "1", "2", "3", "4"]  # by number, not by letters
    assert found(sort="-train.optimizer.lr") == ["4", "3", "2", "1", "0"]
    assert found(sort="-score") == ["3", "1", "2", "0", "4"]  # without a value last, either way
    assert found(sort="trial")[0] == "0" and found(sort="nothing") == ["0", "1", "2", "3", "4"]
    assert found(find="lr=0.1 SUCC") == ["2"] and found(find="lr=0.1 failed") == []
    assert found(state="failed") == ["1"]


def test_trials_are_exported_with_their_settings(browser: httpx.Client, trials: list[Job]) -> None:
    answer = browser.get("/trials.csv", params={"sweep": RUN, "find": "succeeded", "by": "valid_loss"})
    first, second = csv.DictReader(io.StringIO(answer.text))
    assert (first["trial"], first["valid_loss"], first["train.optimizer.lr"]) == ("search-000", "2.5", "0.001")
    assert second["job"] == trials[2].id and answer.headers["content-type"].startswith("text/csv")


def test_an_array_and_any_list_have_the_same_page(world: World, browser: httpx.Client) -> None:
    for seed in (1, 2):
        job = world.job(f"many-{seed}", words=[f"seed={seed}", '+note="=1+1"'], tags=["array-12345678"])
    page = browser.get("/trials", params={"q": "tag:array-12345678"}).text
    assert [row[-2] for row in rows(page)] == ["1", "2"] and "<bdi>many</bdi>" in page
    assert 'href="/trials?q=tag:array-12345678"' in browser.get(f"/jobs/{job.id}").text
    assert 'href="/trials?q=tag%3Aarray-12345678"' in browser.get("/?q=tag:array-12345678").text
    assert "No training is like that" in browser.get("/trials", params={"sweep": "9" * 32}).text
    wrong = browser.get("/trials", params={"q": "fruit:pear"})
    assert wrong.status_code == 400 and "fruit" in wrong.text


def test_a_trial_that_is_tried_again_is_read_again(world: World, browser: httpx.Client) -> None:
    job = world.job("again-000", State.FAILED, words=["seed=1"], tags=["again"])
    journal(world, "again-000", [3.0])

    def score() -> str:
        return rows(browser.get("/trials", params={"q": "tag:again"}).text)[0][1]

    assert score() == "3 (best)"
    journal(world, "again-000", [3.0, 2.0])
    assert score() == "3 (best)"  # an ended trial is not read again
    world.ledger.change(world.ledger.job(job.id), State.SUBMITTED, "anna", "tried again")
    assert score() == "2 (best)"


def test_only_a_page_with_news_to_come_has_a_stream(world: World, browser: httpx.Client) -> None:
    job = world.job("over-000", State.SUCCEEDED, words=["seed=1"], tags=["over"])
    journal(world, "over-000", [1.0])

    def page() -> str:
        return browser.get("/trials?q=tag:over").text

    assert 'data-stream="/live/trials?q=tag%3Aover"' in page()  # it ended a moment ago
    with world.ledger.database.write() as session:
        session.execute(update(Job).where(Job.id == job.id).values(changed=Job.changed - 3600))
    assert "1 trial " in page() and "data-stream" not in page()


def test_of_a_repeated_step_the_last_value_counts(tmp_path: Path) -> None:
    lines = [
        *({"step": 1, "valid_loss": 1.0, "valid_items": 7}, {"step": 2, "loss": 0.1}, {"step": 1, "valid_loss": 2.0}),
        *({"step": 3, "valid_loss": "nan"}, {"step": 4, "epoch_loss": 0.5}),
    ]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"valid_loss')
    assert read_measures(tmp_path) == {"valid_loss": [2.0], "epoch_loss": [0.5]}
    assert read_measures(tmp_path / "none") == {}


def test_settings_are_placed_by_value_by_order_of_magnitude_or_by_choice() -> None:
    wide = Axis.of(["0.001", "0.01", "0.1"])
    assert [round(wide.place(value)) for value in ("0.001", "0.01", "0.1")] == [0, 500, 1000]
    assert Axis.of(["1", "2", "3"]).place("2") == 500
    assert Axis.of(["10", "9"] * 2).choices == ["9", "10"]
    words = Axis.of(["gru", None])
    assert words.ticks() == ["default", "gru"] and words.place("gru") == 750


def test_the_best_so_far_never_worsens_and_far_scores_stand_at_the_edge() -> None:
    scores = [3.0, 5.0, 2.0, 4.0, 1e9]
    scored = [(trial(number, score, x=number), score) for number, score in enumerate(scores)]
    chart = over_time(scored, "valid_loss", "j-2")
    assert chart is not None and chart.high < 100 and chart.lines[0].last == "2"
    heights = [float(point.split(",")[1]) for point in chart.lines[0].place.split()]
    assert heights == sorted(heights) and len(set(heights)) == 2
    assert [one.kind for one in chart.dots] == ["whole", "peak"] and chart.dots[0].place.endswith("M1000 0h0")
    (picture,) = pictures(scored, ["x"], "valid_loss", "j-2")
    assert picture.dots[1].place.startswith("M500 ")
    assert over_time(scored[:1], "valid_loss", "") is None and pictures(scored[:1], ["x"], "valid_loss", "") == []


def test_the_setting_that_the_score_depends_on_has_the_largest_share() -> None:
    draws = random.Random(1)
    scored = []
    for number in range(24):
        rate, kind = 10 ** draws.uniform(-4, -1), draws.choice(["a", "b"])
        score = (math.log10(rate) + 2.5) ** 2 + 0.01 * draws.random()
        scored.append((trial(number, score, rate=rate, kind=kind), score))
    shares = compute_shares(scored, ["rate", "kind"], "valid_loss")
    assert list(shares) == ["rate", "kind"] and shares["rate"] > 0.9 and sum(shares.values()) == pytest.approx(1)
    assert compute_shares(scored[:3], ["rate", "kind"], "valid_loss") == {}
    assert compute_shares(scored, [], "valid_loss") == {} and compute_shares([], ["rate"], "valid_loss") == {}
    stopped = [(replace(one, state=State.STOPPED), score) for one, score in scored]
    assert compute_shares(stopped, ["rate"], "valid_loss") == {"rate": pytest.approx(1)}  # what all of them reached


def test_a_thousand_trials_come_some_at_a_time_with_what_they_depend_on(tmp_path: Path) -> None:
    world, run = World(tmp_path), "6" * 32
    draws = random.Random(1)
    pattern = world.ledger.job(world.job("pattern", State.SUCCEEDED).id)
    row = {column.key: getattr(pattern, column.key) for column in Job.__table__.columns if column.key != "seq"}
    made = []
    for number in range(1000):
        name, x = f"big-{number:03d}", draws.random()
        plan = {**(pattern.plan or {}), "run_dir": str(world.home / "runs" / name)}
        words = [f"tracking.parent={run}", f"model.dropout={x:.6f}", f"seed={draws.randint(1, 3)}"]
        more = {"id": f"b-{number}", "run": f"run {name}", "queued": number + 9, "words": words, "plan": plan}
        made.append({**row, **more})
        journal(world, name, [9.0, 1 + (x - 0.5) ** 2])
    with world.ledger.database.write() as session:
        session.execute(insert(Job), made)
    world.start()
    try:
        with httpx.Client(base_url=world.address, timeout=120) as client:
            page = client.get("/trials", params={"sweep": run}).text
            assert "1,000 trials" in page and len(rows(page)) == 50 and len(page) < 150_000
            seen = [row[0] for place in (0, 950) for row in rows(client.get(f"/trials?sweep={run}&place={place}").text)]
            assert len(set(seen)) == 100
            deadline = time.monotonic() + 120
            while "It is being computed" in page and time.monotonic() < deadline:
                time.sleep(0.2)
                page = client.get("/trials", params={"sweep": run}).text
            shares = re.findall(r'<dt class="mono">(.*?)</dt>', page.replace("<wbr>", ""))
            assert shares == ["model.dropout", "seed"]
    finally:
        world.close()


def test_nobody_sees_another_owners_trials(tmp_path: Path) -> None:
    world = World(tmp_path)
    access = world.loop.scheduler.access
    access.issue("r", "root", "admin", "up")
    token = access.issue("b", "ben", "submitter", "root")
    for owner in ("anna", "ben"):
        world.job(f"{owner}s-000", State.SUCCEEDED, owner=owner, words=[f"tracking.parent={RUN}", "seed=1"])
        journal(world, f"{owner}s-000", [1.0])
    world.start(keys=True)
    try:
        with httpx.Client(base_url=world.address, follow_redirects=True) as client:
            assert client.get("/trials").url.path == "/login"
            client.post("/login", data={"token": token})
            for path in ("/trials", "/trials.csv"):
                for asked in ({"sweep": RUN}, {"owner": "anna"}, {"q": "owner:anna"}):
                    text = client.get(path, params=asked).text
                    assert "annas" not in text and ("bens-000" in text) == ("sweep" in asked), (path, asked)
    finally:
        world.close()
