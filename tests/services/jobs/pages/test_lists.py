"""Lists that are searched and sorted, and the jobs that a job comes after, on the pages."""

import httpx
import pytest

from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import csrf
from tests.services.jobs.pages.test_pages import names
from tests.services.jobs.pages.world import World


@pytest.fixture(scope="module")
def jobs(world: World) -> dict[str, Job]:
    return {
        "gru": world.job("gru-1", State.FAILED, words=["model=gru"], tags=["paper"]),
        "lstm": world.job("lstm-1", State.FAILED, owner="ben", tags=["paper", "nightly"]),
        "formula": world.job("=1+1", State.SUCCEEDED, words=['+note="a,b"']),
        "waits": world.job("waits"),
    }


def test_a_list_is_searched_by_the_filters_of_the_command_line(browser: httpx.Client, jobs: dict[str, Job]) -> None:
    def found(query: str, **more: str) -> list[str]:
        return names(browser.get("/", params={"q": query, **more}).text.replace("<wbr>", ""))

    assert found("state=failed owner=anna model=gru") == ["gru-1"]
    assert found("tag=paper") == ["lstm-1", "gru-1"]
    assert found("tag=paper,nightly") == ["lstm-1"]
    assert found("ru-") == ["gru-1"] and found(jobs["gru"].id) == ["gru-1"]
    assert found("since=1d state=waiting", state="waiting") == ["waits"]
    assert found("until=1d") == []
    for query, message in (("fruit=pear", "&#39;fruit&#39; is not known"), ("since=soon", "say an age")):
        wrong = browser.get("/", params={"q": query})
        assert wrong.status_code == 400 and message in wrong.text
        assert f'value="{query}"' in wrong.text and len(names(wrong.text)) == len(jobs)  # beside the list


def test_a_waiting_job_comes_after_others_never_after_itself(world: World, browser: httpx.Client) -> None:
    first, second, third = (world.job(f"chain-{number}") for number in range(3))
    word = csrf(browser.get(f"/jobs/{first.id}").text)

    def post(job: Job, after: str) -> httpx.Response:
        return browser.post(f"/jobs/{job.id}/after", data={"csrf": word, "after": after}, follow_redirects=True)

    assert "are changed" in post(second, "chain-0").text  # by the name of its run
    assert world.ledger.job(second.id).after == [first.id]
    world.loop.scheduler.look(world.loop.executor.capacity())
    assert "it comes after job" in browser.get(f"/v1/jobs/{second.id}/why").json()["text"]
    assert "are changed" in post(third, f"{second.id}, {first.id}").text
    failed = world.job("chain-failed", State.FAILED)
    for job, after in ((first, failed.id), (first, third.id), (first, first.id), (first, "nobody")):
        assert post(job, after).status_code in (400, 404)
    assert world.ledger.job(first.id).after == []
    assert post(third, "").status_code == 200
    assert (world.ledger.job(third.id).after, world.ledger.job(third.id).follows) == ([], False)
    assert post(world.job("begun", State.RUNNING), first.id).status_code == 409


def test_nobody_sees_or_names_what_is_another_owners(empty: World) -> None:
    tokens = empty.tokens(ben="submitter")
    annas, bens = empty.job("annas"), empty.job("bens", owner="ben")
    with empty.visit(tokens["ben"]) as client:
        word = csrf(client.get(f"/jobs/{bens.id}").text)
        for path in ("/", "/?q=owner%3Danna", "/?q=tag%3Dx", "/submit?verb=shard", "/tokens"):
            assert annas.id not in client.get(path).text, path
        assert bens.id in client.get("/").text
        for after in (annas.id, "annas"):
            answer = client.post(f"/jobs/{bens.id}/after", data={"csrf": word, "after": after})
            assert answer.status_code in (400, 404) and "anna's" not in answer.text
        assert client.get(f"/jobs/{annas.id}/log.txt").status_code == 404


def test_jobs_are_sorted_by_their_score(empty: World) -> None:
    found = [empty.job(f"run-{number}", State.SUCCEEDED) for number in range(3)]
    for job, score in zip(found, (31.5, None, 40.25), strict=True):
        empty.ledger.change(job, State.SUBMITTED, "anna", "again", score=score, metric="BLEU" if score else "")
    with empty.visit() as client:
        assert names(client.get("/?sort=-score").text) == ["run-2", "run-0", "run-1"]
        assert names(client.get("/?sort=score").text) == ["run-0", "run-2", "run-1"]
        listed = client.get("/v1/jobs", params={"sort": "-score"}).json()["jobs"]
        assert [one["score"] for one in listed] == [40.25, 31.5, None]
