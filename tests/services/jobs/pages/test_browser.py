"""The pages in the system's chromium: both widths, dark and light, with script and without, live, while the service
restarts; looked through by axe-core. One browser and one service for all of it."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.states import State
from tests.services.jobs.pages.world import LONG, RIGHT_TO_LEFT, World
from tests.services.listening import CHROMIUM

WIDTHS = {"wide": (1440, 900), "laptop": (1024, 768), "tablet": (768, 1024), "phone": (390, 844)}
PATIENCE = 180_000  # milliseconds: the first form waits for the planner's process
CROWDED = """[...document.querySelectorAll('.ticks-x')].filter((one) => {
    const labels = one.matches('.buckets, .centred') ? [] : [...one.children];
    const places = labels.map((label) => label.getBoundingClientRect());
    return one.scrollWidth > one.clientWidth + 1 || places.some((it, at) => at && it.left < places[at - 1].right + 2);
}).map((one) => one.innerText)"""  # labels below curves that touch each other or leave their box
Tab = Callable[..., Any]  # settings of a context -> a page in it
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)")


@pytest.fixture
def tab(chromium: Any) -> Iterator[Tab]:
    """Opens a page in a context with these settings."""
    contexts = []

    def open_tab(**settings: Any) -> Any:
        contexts.append(context := chromium.new_context(**settings))
        context.set_default_timeout(PATIENCE)
        return context.new_page()

    yield open_tab
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def jobs(world: World) -> dict[str, Job]:
    found = {
        "succeeded": world.job("base", State.SUCCEEDED),
        "failed": world.job("broken", State.FAILED, changed={"model.dropout": 0.3}),
        "running": world.job("everyday-en-de", State.RUNNING, tags=["paper", LONG]),
        "long": world.job(LONG, State.RUNNING, owner="ben"),
        "right": world.job(RIGHT_TO_LEFT),
        "waiting": world.job("waits-its-turn", owner="o" * 40, priority=10),
    }
    world.write(found["failed"], "\x1b[31mValueError\x1b[0m: it broke\n")
    for number, rate in enumerate(("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")):
        words = [f"tracking.parent={'7' * 32}", f"train.optimizer.lr={rate}", f"model.architecture={LONG}{number % 2}"]
        world.job(f"search-{number:03d}", State.SUCCEEDED if number else State.RUNNING, words=words)
    return found


def every_page(jobs: dict[str, Job]) -> list[str]:
    return [
        *(f"/jobs/{job.id}" for job in jobs.values()),
        *("/", "/?q=nothing-like-it", "/?q=state%3Dfailed", "/?q=fruit%3Dpear", "/?state=waiting"),
        *(f"/?sweep={'7' * 32}", f"/jobs/{jobs['running'].id}/stop", "/jobs/none"),
        *("/submit", f"/submit?like={jobs['succeeded'].id}", "/tokens", "/login"),
    ]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param("wide", "light", marks=pytest.mark.long),
        ("phone", "dark"),
        pytest.param("laptop", "dark", marks=pytest.mark.long),
        pytest.param("tablet", "light", marks=pytest.mark.long),
    ],
)
def test_every_page_fits_its_window_and_keeps_nobody_out(
    world: World, tab: Tab, jobs: dict[str, Job], width: str, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    wide, high = WIDTHS[width]
    page, said = tab(viewport={"width": wide, "height": high}, color_scheme=scheme, bypass_csp=True), []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda problem: said.append(str(problem)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in every_page(jobs):
        asked.clear()
        page.goto(world.address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= wide, path
        assert not page.evaluate(CROWDED), path
        violations = Axe().run(page).response["violations"]
        serious = {
            one["id"]: [node["target"] for node in one["nodes"]][:3]
            for one in violations
            if one["impact"] in ("serious", "critical")
        }
        assert not serious, (path, serious)
        assert all(url.startswith((world.address, "data:")) for url in asked), path
        streams = [url for url in asked if "/live/" in url]
        assert len(streams) <= 1, path
    assert [text for text in said if "404" not in text and "400" not in text] == []  # two pages that are problems


def test_the_pages_obey_their_own_policy_and_follow_the_systems_colours(
    world: World, tab: Tab, jobs: dict[str, Job]
) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        page, said = tab(color_scheme=scheme), []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.goto(f"{world.address}/jobs/{jobs['running'].id}")
        page.wait_for_selector(".chart svg polyline")
        page.hover(".chart svg")
        page.wait_for_selector(".chart .cursor", state="attached")
        assert not said
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_with_script_a_page_follows_its_job_while_the_service_restarts(world: World, tab: Tab) -> None:
    job = world.job("followed", State.RUNNING)
    page, asked = tab(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{world.address}/jobs/{job.id}")
    documents = [url for url in asked if "/static/" not in url]
    world.write(job, "before the restart\n")
    wait(page, lambda: "before the restart" in page.inner_text("#log"))
    assert [url.partition("?")[0] for url in (*documents, *[url for url in asked if "/live/" in url][:1])][:2] == [
        *(f"{world.address}/jobs/{job.id}", f"{world.address}/live/jobs/{job.id}")
    ]
    world.stop()
    wait(page, lambda: page.is_visible("[data-offline]"))
    world.write(job, "while it was away\n")
    world.start()
    wait(page, lambda: "while it was away" in page.inner_text("#log"))
    wait(page, lambda: not page.is_visible("[data-offline]"))
    lines = page.inner_text("#log").split()
    assert [line for line in lines if line.isdigit()] == [str(step) for step in range(1, 200)]  # each once
    world.curves("followed", 480)
    wait(page, lambda: "480" in page.inner_text(".progress"))
    current = world.ledger.job(job.id)
    world.ledger.end(current, State.SUCCEEDED, "succeeded", "", "exit code 0", 0)
    wait(page, lambda: page.inner_text("#head .state") == "succeeded")
    assert page.inner_text("#log").count("before the restart") == 1


def test_with_script_stopping_asks_in_a_dialog_and_a_list_changes_by_itself(world: World, tab: Tab) -> None:
    job = world.job("dialogue")
    page = tab()
    page.goto(f"{world.address}/?q=dialogue")
    assert page.inner_text("table.jobs .state") == "waiting"
    other = page.context.new_page()
    other.goto(f"{world.address}/jobs/{job.id}")
    other.click("text=Stop")
    assert other.inner_text("dialog p") == "Stop this job?"
    other.keyboard.press("Escape")
    assert world.ledger.job(job.id).state == State.WAITING
    other.click("text=Stop")
    other.click("dialog .danger")
    other.wait_for_selector(".notice.good")
    wait(page, lambda: page.inner_text("table.jobs .state") == "stopped")


def test_the_plan_comes_beside_the_form_and_the_log_in_pieces(world: World, tab: Tab) -> None:
    job = world.job("talkative", State.RUNNING)
    world.write(job, "".join(f"line {number} of a long log\n" for number in range(60_000)))
    page, asked = tab(), []
    page.goto(f"{world.address}/jobs/{job.id}")
    assert "line 59999 " in page.inner_text("#log") and "line 10 " not in page.inner_text("#log")
    before = page.evaluate("document.querySelectorAll('#log span').length")
    page.evaluate("document.getElementById('log').scrollTop = 0")
    wait(page, lambda: page.evaluate("document.querySelectorAll('#log span').length") > before)
    numbers = [int(number) for number in re.findall(r"line (\d+) of", page.inner_text("#log"))]
    assert numbers == list(range(numbers[0], 60_000))
    page.goto(f"{world.address}/submit?verb=shard")
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    page.locator("#settings").press_sequentially("seed=3")
    assert not asked  # no request a keystroke
    page.locator("#settings").blur()
    wait(page, lambda: "Takes" in page.inner_text("#plan"))
    assert len(asked) == 1
    assert page.input_value("#settings") == "seed=3"


def wait(page: Any, done: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, page.inner_text("main")
        page.wait_for_timeout(100)
