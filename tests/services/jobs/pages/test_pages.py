"""Pages as a program gets them: who sees what, forms that cannot be forged, asking before destroying, 10,000 jobs."""

import math
import re
from urllib.parse import quote

import httpx
from itsdangerous import URLSafeSerializer
from sqlalchemy import insert

from dragoman.services.jobs.client import table
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.pages.sessions import COOKIE
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.states import State
from tests.markup import HOSTILE as HOSTILE_TEXTS
from tests.markup import check_nothing_runs
from tests.services.jobs.at_work import csrf
from tests.services.jobs.pages.world import HOSTILE, LONG, RIGHT_TO_LEFT, World


def test_without_jobs_the_pages_say_how_to_begin(world: World, browser: httpx.Client) -> None:
    said = browser.get("/").text
    assert "Nothing has been handed in yet" in said
    assert "dragoman submit train" in said


def test_every_page_may_load_nothing_from_elsewhere_and_runs_no_script_of_its_own(
    world: World, browser: httpx.Client
) -> None:
    job = world.job(HOSTILE, State.FAILED)
    world.curves(HOSTILE, 50)
    for path in (
        "/",
        f"/jobs/{job.id}",
        "/tokens",
        "/login",
    ):
        answer = browser.get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200, path
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy, path
        assert HOSTILE not in answer.text, path
        text = answer.text.replace("<wbr>", "")  # where a long word may break
        assert not re.search(r"<script(?! src=\"/static/)|\sstyle=|\son\w+=|https?://(?!127\.0\.0\.1)", text), path
    assets = re.findall(r'(?:src|href)="(/static/[^"]+)"', browser.get("/").text)
    sizes = {path.partition("?")[0]: len(browser.get(path).content) for path in assets}
    assert sum(size for path, size in sizes.items() if path.endswith(".js")) <= 100_000
    assert "immutable" in browser.get(assets[0]).headers["cache-control"]


def test_whatever_a_job_is_called_its_pages_are_strict_html(world: World, browser: httpx.Client) -> None:
    everything = "".join(one for one in HOSTILE_TEXTS if "\0" not in one)
    job = world.job("odd", State.FAILED, words=[everything], changed={everything: everything})
    world.curves("odd", 50)
    log = attempt_of(world.home, job.id, job.attempt).log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes("\n".join(HOSTILE_TEXTS).encode("utf-8", "surrogatepass"))
    for path in ("/", f"/jobs/{job.id}"):
        check_nothing_runs(browser.get(path).text)
    odd = "&".join(f"{key}={quote(everything, errors='surrogatepass')}" for key in ("name", "settings", "search"))
    for path in (
        "/tokens",
        "/submit?verb=train",
        "/login",
        "/jobs/<script>&%00%01",
        f"/submit?verb=train&{odd}",
        f"/?{odd}",
    ):
        check_nothing_runs(browser.get(path).text)


def test_a_session_of_wrong_types_is_none(world: World) -> None:
    values: list[object] = [7, [], {"id": 7, "token": None, "at": 1e10}, {"id": "a", "token": [], "at": 1e10}]
    values += [{"id": "a", "token": None}]
    values += [{"id": "a", "token": None, "at": at} for at in ("now", None, True, [], 10**400, math.inf, math.nan)]
    signer = URLSafeSerializer((world.home / "service" / "session_key").read_text(), salt="session")
    forged = [*map(signer.dumps, values), signer.make_signer("session").sign(b"no JSON").decode()]
    with httpx.Client(base_url=world.address) as browser:
        for cookie in forged:
            browser.cookies = httpx.Cookies({COOKIE: str(cookie)})
            answer = browser.get("/")
            assert answer.status_code == 200 and COOKIE in answer.cookies, cookie


def test_a_form_of_another_site_or_session_does_nothing(world: World, browser: httpx.Client) -> None:
    job = world.job("guarded")
    page = browser.get(f"/jobs/{job.id}")
    word = csrf(page.text)
    stop = f"/jobs/{job.id}/stop"
    with httpx.Client(base_url=world.address) as stranger:
        assert stranger.post(stop, data={"csrf": word}).status_code == 403  # no cookie
        stranger.get("/")
        assert stranger.post(stop, data={"csrf": word}).status_code == 403  # another's word
    assert browser.post(stop, data={}).status_code == 403
    assert browser.post(stop, data={"csrf": word}, headers={"Origin": "http://evil.example"}).status_code == 403
    assert browser.post(stop, data={"csrf": word}, headers={"Host": "evil.example"}).status_code == 403
    assert world.ledger.job(job.id).state == State.WAITING
    asked = browser.get(stop)
    assert "Stop this job?" in asked.text
    assert world.ledger.job(job.id).state == State.WAITING  # asking destroys nothing
    answer = browser.post(stop, data={"csrf": csrf(asked.text)}, headers={"Origin": world.address})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job.id}?done=stop")
    assert world.ledger.job(job.id).state == State.STOPPED


def test_every_form_of_every_page_is_answered(empty: World) -> None:
    states = (State.WAITING, State.RUNNING, State.SUCCEEDED, State.FAILED)
    jobs = [f"/jobs/{empty.job(f'job-{state}', state).id}" for state in states]
    asking = (f"{jobs[0]}/stop", f"{jobs[-1]}/remove")
    forms: dict[str, tuple[str, dict[str, str]]] = {}
    with empty.visit() as client:
        for path in ("/", "/tokens", "/submit", *jobs, *asking):
            for form, fields in re.findall(r"<form ([^>]*)>(.*?)</form>", client.get(path).text, re.DOTALL):
                facts = dict(re.findall(r'(\w+)="([^"]*)"', form))
                forms[facts["action"]] = facts["method"], dict(re.findall(r'name="([^"]*)" value="([^"]*)"', fields))
        assert len(forms) >= 10
        for action in sorted(forms, key=lambda action: action.endswith("remove")):
            method, sent = forms[action]
            how = {"data": sent} if method == "post" else {"params": sent}
            answer = client.request(method, action, follow_redirects=False, **how)
            assert answer.status_code in (200, 303, 400, 409), (action, answer.text)


def test_what_cannot_be_done_is_said_on_a_page(world: World, browser: httpx.Client) -> None:
    job = world.job("waits-only")
    word = csrf(browser.get(f"/jobs/{job.id}").text)
    refused = browser.post(f"/jobs/{job.id}/yield", data={"csrf": word})
    assert refused.status_code == 409
    assert "cannot become yielding" in refused.text
    assert browser.get("/jobs/none").status_code == 404
    assert "no job none" in browser.get("/jobs/none").text
    assert "There is no such page" in browser.get("/nothing").text
    assert browser.get("/nothing", headers={"Accept": "*/*"}).json() == {"error": "Not Found"}
    assert "priority" in browser.post(f"/jobs/{job.id}/priority", data={"csrf": word, "priority": "top"}).text


def test_a_job_is_put_first_stopped_tried_again_and_removed_without_script(world: World, browser: httpx.Client) -> None:
    job = world.job("by-hand")
    word = csrf(browser.get(f"/jobs/{job.id}").text)

    def post(action: str, **more: str) -> httpx.Response:
        return browser.post(f"/jobs/{job.id}/{action}", data={"csrf": word, **more}, follow_redirects=True)

    assert "Its priority is changed" in post("priority", priority="high").text
    assert world.ledger.job(job.id).priority == 10
    assert "It is asked to stop" in post("stop").text
    assert "It is queued again" in post("retry").text
    post("stop")
    assert "The job is removed" in post("remove").text
    assert browser.get(f"/jobs/{job.id}").status_code == 404


def test_the_form_plans_before_it_submits(world: World, browser: httpx.Client) -> None:
    page = browser.get("/submit?verb=train&model=rnnsearch_additive").text
    assert re.search(r'name="model">.*<option selected>rnnsearch_additive</option>', page)
    sent = {"csrf": csrf(page), "verb": "shard", "corpus": "everyday", "do": "plan"}
    told = browser.post("/submit", data=sent)
    assert told.status_code == 200, told.text
    assert "Workers" in told.text and "Takes" in told.text
    assert world.ledger.counts().get("submitted", 0) == 0
    wrong = browser.post("/submit", data={**sent, "settings": "corpus.pairs=many"})
    assert wrong.status_code == 400 and "corpus.pairs" in wrong.text
    assert "corpus.pairs=many</textarea>" in wrong.text  # what was typed still stands there
    refused = browser.post("/submit", data={**sent, "settings": "corpus.root=/etc"}, headers={"X-Part": "plan"})
    assert refused.status_code == 400
    assert "lies outside" in refused.text and "<html" not in refused.text
    submitted = {**sent, "do": "submit", "settings": "seed=7", "priority": "high", "retries": "2"}
    done = browser.post("/submit", data=submitted)
    assert done.status_code == 303
    job = world.ledger.job(done.headers["location"].split("/")[2].partition("?")[0])
    assert (job.verb, job.words, job.priority, job.retries) == ("shard", ["corpus=everyday", "seed=7"], 10, 2)
    again = browser.get(f"/submit?like={job.id}").text
    assert "seed=7</textarea>" in again
    assert "<option selected>shard</option>" in again and "<option selected>everyday</option>" in again


def test_with_tokens_a_person_signs_in_and_sees_his_own(empty: World) -> None:
    tokens = empty.tokens(anna="submitter", ben="viewer")
    mine = empty.job("mine")
    with empty.visit("") as client:
        gate = client.get(f"/jobs/{mine.id}")
        assert gate.url.path == "/login" and "Token" in gate.text
        assert client.get("/live/jobs").status_code == 401
        assert client.post("/login", data={"token": "dgm_no", "next": "/"}).status_code == 401
        outside = client.post(
            "/login", data={"token": tokens["anna"], "next": "//evil.example/"}, follow_redirects=False
        )
        assert outside.headers["location"] == "/"
        cookie = outside.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie and tokens["anna"] not in cookie
        page = client.get(f"/jobs/{mine.id}")
        assert page.status_code == 200 and "Stop" in page.text
        client.post("/login", data={"token": tokens["ben"]})
        assert client.get(f"/jobs/{mine.id}").status_code == 404
        home = client.get("/")
        assert "mine" not in home.text and "New job" not in home.text
        assert client.get("/submit").status_code == 403
        assert client.post(f"/jobs/{mine.id}/stop", data={"csrf": csrf(home.text)}).status_code == 403
        empty.loop.scheduler.access.revoke("ben", "root")
        assert client.get("/").url.path == "/login"


def test_a_trial_of_another_owners_sweep_shows_nothing_of_that_sweep(empty: World) -> None:
    """Anyone may name any run as `tracking.parent`."""
    run = "7" * 32
    tokens = empty.tokens(ben="submitter")
    annas = empty.job("search-000", words=[f"tracking.parent={run}"])
    bens = empty.job("guess-000", words=[f"tracking.parent={run}"], owner="ben")
    with empty.visit(tokens["ben"]) as client:
        sweep = client.get("/", params={"sweep": run}).text
        assert bens.id in sweep and annas.id not in sweep and "anna" not in sweep
        assert re.findall(r"<b>(\d+)</b></a></li>", sweep)[:3] == ["1", "0", "1"]
        assert f'href="/?sweep={run}"' in client.get(f"/jobs/{bens.id}").text
        assert client.get(f"/jobs/{annas.id}").status_code == 404


def test_ten_thousand_jobs_are_listed_some_at_a_time(empty: World) -> None:
    pattern = empty.ledger.job(empty.job("pattern").id)
    columns = [column.key for column in Job.__table__.columns if column.key != "seq"]
    row = {key: getattr(pattern, key) for key in columns}
    rows = [{**row, "id": f"j-{n}", "run": f"run job-{n}", "name": f"job-{n}", "queued": n + 2} for n in range(9_997)]
    with empty.ledger.database.write() as session:
        session.execute(insert(Job), rows)
    for name in (LONG, RIGHT_TO_LEFT):
        empty.job(name)
    with empty.visit() as client:
        first = client.get("/")
        assert "10,000" in first.text and first.text.count('<td class="name">') == 55
        assert len(first.content) < 100_000
        older = re.search(r'href="/(\?before=\d+)">Older', first.text)
        assert older is not None
        assert "job-9946<" in client.get(f"/{older[1]}").text.replace("<wbr>", "")
        found = client.get("/", params={"q": "job-779"}).text.replace("<wbr>", "")
        assert ">job-779<" in found and ">job-7799<" in found and ">job-78<" not in found
        shown = client.get("/", params={"q": "%"}).text
        assert "No job is like that" in shown
        assert f"<bdi>{RIGHT_TO_LEFT}" in first.text.replace("<wbr>", "")


def test_what_waits_is_listed_in_the_queues_order_below_what_runs(empty: World) -> None:
    running = [empty.job(f"runs-{number}", State.RUNNING) for number in range(2)]
    for number in range(60):
        empty.job(f"normal-{number:02}")
    empty.job("low", priority=-10)
    first = empty.job("urgent", priority=10)
    with empty.visit() as client:
        page = client.get("/?state=waiting").text
        assert names(page) == [*("runs-1", "runs-0", "urgent"), *(f"normal-{number:02}" for number in range(49))]
        assert page.index("Running now") < page.index(first.id)
        following = re.search(r'href="(/[^"]*)">Further back', page)
        assert following is not None
        back = client.get(following[1].replace("&amp;", "&")).text
        assert names(back) == [*(f"normal-{number:02}" for number in range(49, 60)), "low"]
        assert "from place 51 on" in back and "Front of the queue" in back and "Further back" not in back
        found = client.get("/", params={"state": "waiting", "q": "normal-5"}).text
        assert names(found) == [f"normal-5{number}" for number in range(10)]
        everything = client.get("/").text
        assert names(everything)[:5] == ["runs-1", "runs-0", "urgent", "normal-00", "normal-01"]
        assert names(everything)[7] == "low"  # and then the newest
        older = re.search(r'href="(/[^"]*)">Older', everything)
        assert older is not None
        more = names(client.get(older[1].replace("&amp;", "&")).text)
        assert more == [f"normal-{number:02}" for number in range(11, -1, -1)]  # none of those that run again
        assert running[0].id in client.get("/?state=running").text


def names(page: str) -> list[str]:
    """The runs of a list, from the top."""
    return [re.sub("<.*?>", "", one) for one in re.findall(r'<td class="name"><a[^>]*>(.*?)</a>', page)]


def test_the_command_line_says_of_a_waiting_job_what_the_page_says(empty: World) -> None:
    for number in range(2):
        empty.job(f"holds-{number}", State.RUNNING)
    waiting = empty.job("waits")
    empty.loop.scheduler.look(empty.loop.executor.capacity())
    with empty.visit() as client:
        listed = client.get("/v1/jobs").json()
        page = client.get("/").text
        detail = client.get(f"/v1/jobs/{waiting.id}").json()
    said = table.table(table.job_rows(listed["jobs"], empty.ledger.now()))
    (line,) = [line for line in said.splitlines() if line.startswith(waiting.id)]
    told = "needs 1 CPU, 0 are free"
    assert told in page and line.endswith(told)
    assert f"waiting: {told}" in table.detail(detail)
    assert all(job["why"] == "" for job in listed["jobs"] if job["id"] != waiting.id)
