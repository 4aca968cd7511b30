"""A day of a team, as real processes: three owners' command lines and a browser against one `dragoman up`.

Every notice is received by a server of this machine and compared with the ledger's; at the end the home is lost, comes
back from a backup, and the work goes on.
"""

import base64
import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.jobs.service.webhook import signature
from tests.services.jobs.team import REPOSITORY, User, read, serving, state, wait
from tests.services.jobs.test_webhook import KEY, Receiver
from tests.services.listening import CHROMIUM

pytestmark = pytest.mark.long
CORPUS = ["corpus=everyday", "corpus.pairs=600", "tokenizer.vocabulary=300", "cluster.workers=1"]
TRAINING = [
    *["model=transformer_tiny", "model.width=32", "model.heads=2", "model.encoder_layers=1", "model.decoder_layers=1"],
    *["model.feed_forward=32", "loader.batch_tokens=256", "train.precision=fp32", "train.checkpoint_every=10"],
    *["train.evaluate_every=1000000", "evaluate.split=valid", "evaluate.sentences=20", "decode.length_penalty=1.0"],
]
SHORT = [*TRAINING, "train.max_steps=20"]
ENDED = "succeeded,failed,stopped,lost"
BACKUP = REPOSITORY / "deploy" / "backup.sh"
LISTS = ("jobs", "token", "quota")


class Day:
    """The service's home and settings, its people and what they were told."""

    def __init__(self, folder: Path, received: Receiver) -> None:
        self.folder, self.home, self.received = folder, folder / "home", received
        (folder / "webhook").write_text(f"whsec_{base64.b64encode(KEY).decode()}\n")
        (folder / "webhook").chmod(0o600)
        self.settings = [
            *["service.port=0", "service.ports=0", "service.cpus=1", "service.tick=0.2", "service.preempt_after=1"],
            *["service.endpoint=false", f"service.webhook.secret={folder}/webhook"],
            f"service.webhook.url=http://127.0.0.1:{received.server_address[1]}/hook",
        ]
        (folder / "root").mkdir()
        (folder / "root" / "key").write_text("dgm_a_token_of_an_admin_who_sets_the_service_up")
        (folder / "root" / "key").chmod(0o600)
        self.settings.append(f"+service.tokens.admin={folder}/root/key")

    def people(self, address: str) -> tuple[User, ...]:
        return tuple(User(self.folder / name, address) for name in ("root", "anna", "ben", "carla"))

    @property
    def ledger(self) -> Path:
        return self.home / "service" / "ledger.db"

    def state(self, job: str) -> str:
        return state(self.home, job)

    def wait_for_ends(self) -> None:
        """Until no job is left."""
        ended = "('succeeded', 'failed', 'stopped', 'lost')"
        query = f"SELECT id, state, reason FROM jobs WHERE state NOT IN {ended}"
        wait(lambda: not read(self.ledger, query), lambda: str(read(self.ledger, query)))

    def back_up(self) -> None:
        subprocess.run([BACKUP, self.home, self.folder / "archive"], check=True)

    def restore(self) -> None:
        """Restores the backup as docs/backup.md says."""
        archive = self.folder / "archive"
        self.home.mkdir()
        subprocess.run(["tar", "-xf", archive / "files.tar", "-C", self.home], check=True)
        shutil.copytree(archive / "databases", self.home, dirs_exist_ok=True)

    def step(self, owner: str, run: str) -> int:
        """Returns the last step of a run's journal; 0 if there is none."""
        path = self.home / "runs" / owner / run / "steps.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return max((json.loads(line)["step"] for line in lines[-3:-1]), default=0)  # the last line may be half written

    def look_at_notices(self) -> set[str]:
        """Compares what was received with the ledger's notices; returns the events."""
        behind = "SELECT 1 FROM meta WHERE key = 'noticed' AND CAST(value AS INTEGER) < (SELECT max(id) FROM changes)"
        due = "SELECT 1 FROM notices WHERE due IS NOT NULL"
        wait(lambda: not (read(self.ledger, behind) or read(self.ledger, due)), lambda: str(self.received))
        notices = dict(read(self.ledger, "SELECT id, event FROM notices"))
        for headers, body in self.received.posts:
            name, at = headers["webhook-id"], int(headers["webhook-timestamp"])
            assert headers["webhook-signature"] == signature(KEY, name, at, body)
            assert json.loads(body)["type"] == f"job.{notices[name]}"
        assert sorted(headers["webhook-id"] for headers, _ in self.received.posts) == sorted(notices)
        return set(notices.values())


def test_a_team_works_for_a_day_and_goes_on_from_a_backup(tmp_path: Path) -> None:
    with Receiver() as received:
        threading.Thread(target=received.serve_forever, daemon=True).start()
        day = Day(tmp_path, received)
        with serving(day.home, *day.settings) as address:
            root, anna, ben, carla = day.people(address)
            jobs = morning(day, root, anna, ben, carla)
            running = noon(day, ben, carla)
            look_at_rights(root, anna, ben, carla, jobs)
            assert day.look_at_notices() >= {"succeeded", "failed", "preempted"}
            before = facts(day, root)
            day.back_up()
        day.home.rename(tmp_path / "lost")
        day.restore()
        with serving(day.home, *day.settings) as address:
            evening(day, day.people(address), before, running)
            day.look_at_notices()
        received.shutdown()


def morning(day: Day, root: User, anna: User, ben: User, carla: User) -> dict[str, str]:
    """Tokens, shards of one name for everybody, a training and its promotion, a failure; returns the jobs."""
    for one in (anna, ben, carla):
        one.receive(root.run("token", "issue", one.name, f"owner={one.name}", "role=submitter", "ends=30d"))
    jobs = {f"shard {one.name}": one.submit("shard", *CORPUS, "jobs.tags=[nightly]") for one in (anna, ben, carla)}
    jobs["train"] = anna.submit("train", *CORPUS, *SHORT, "name=first", f"jobs.after=[{jobs['shard anna']}]")
    why = ["promote.force=true", "promote.reason=the first one", "promote.split=valid"]
    jobs["promote"] = anna.submit("promote", *CORPUS, *why, "jobs.after=[first]")

    key = ["doctor", f"jobs.after=[{jobs['shard ben']}]", "jobs.tags=[unwanted]", "jobs.key=once"]
    unwanted = {ben.submit(*key) for _ in range(2)}
    assert len(unwanted) == 1
    assert {one["id"] for one in ben.rows("stop", "tag=unwanted", "--dry-run")} == unwanted
    assert [one["state"] for one in ben.rows("stop", "tag=unwanted", "--yes")] == ["stopped"]
    assert {one["id"] for one in ben.rows("rm", "tag=unwanted", "--yes")} == unwanted

    jobs["again"] = carla.submit("--from", jobs["shard carla"], "jobs.retries=1")
    missing = ["tokenizer.vocabulary=299", f"jobs.after=[{jobs['again']}]"]
    jobs["failing"] = carla.submit("train", *CORPUS, *SHORT, *missing, "name=failing")

    day.wait_for_ends()
    states = {name: day.state(job) for name, job in jobs.items()}
    assert states.pop("failing") == "failed" and set(states.values()) == {"succeeded"}, states
    return jobs


def noon(day: Day, ben: User, carla: User) -> str:
    """A long training makes room for a job of carla's; returns its id when it trains again."""
    words = [*CORPUS, *TRAINING, "train.max_steps=1000000", "registry.register=false", "name=long"]
    running = ben.submit("train", *words, "jobs.priority=low")
    wait(lambda: day.step("ben", "long"), lambda: ben.run("job", running))
    (nightly,) = carla.rows("jobs", "tag=nightly", "jobs.show=1")
    like = str(nightly["id"])
    urgent = (
        submit_in_browser(carla, day.folder, like) if CHROMIUM else carla.submit("--from", like, "jobs.priority=high")
    )
    wait(lambda: day.state(urgent) == "succeeded", lambda: carla.run("job", urgent))
    step = day.step("ben", "long")
    wait(lambda: day.step("ben", "long") > step + 10, lambda: ben.run("job", running))
    assert [one["outcome"] for one in ben.rows("job", running)[0]["attempts"]] == ["yielded", None]
    return running


def submit_in_browser(user: User, folder: Path, like: str) -> str:
    """Signs in, submits a job like another with high priority, and sees nobody else's jobs; returns the job."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=180_000)
        page = browser.new_page()
        page.set_default_timeout(180_000)
        page.goto(f"{user.service}/login?next=/submit%3Flike={like}")
        page.fill("#token", user.key.read_text().strip())
        page.press("#token", "Enter")
        page.select_option("#q-priority", "high")
        page.get_by_role("button", name="Submit", exact=True).click()
        page.wait_for_selector(".notice.good")
        job: str = page.url.partition("?")[0].rpartition("/")[2]
        page.goto(user.service)
        listed = page.inner_text("#jobs")
        assert job in page.content() and "ben" not in listed and "long" not in listed
        page.screenshot(path=folder / "jobs.png")
        browser.close()
    return job


def look_at_rights(root: User, anna: User, ben: User, carla: User, jobs: dict[str, str]) -> None:
    """Everybody sees and changes their own jobs alone; all lists are JSON."""
    for one, foreign in ((anna, "shard ben"), (ben, "train"), (carla, "promote")):
        assert {row["owner"] for row in one.rows("jobs", "jobs.show=100")} == {one.name}
        for words in (("job", jobs[foreign]), ("stop", jobs[foreign]), ("rm", jobs[foreign])):
            one.run(*words, code=2)
        one.run("quota", one.name, "cpus=100", code=2)
    assert {row["owner"] for row in root.rows("jobs", "jobs.show=100")} == {"anna", "ben", "carla"}
    for verb in LISTS:
        root.rows(verb)
    for job in (jobs["train"], jobs["failing"]):
        root.rows("job", job)
        root.rows("why", job)


def facts(day: Day, root: User) -> dict[str, Any]:
    """Returns what a restored home must have."""
    mlflow = day.home / "mlflow" / "mlflow.db"
    return {
        "jobs": {one["id"]: one for one in root.rows("jobs", f"state={ENDED}", "jobs.show=100")},
        "quota": root.rows("quota"),
        "tokens": [(one["name"], one["owner"], one["role"]) for one in root.rows("token")],
        "runs": read(mlflow, "SELECT run_uuid, status FROM runs WHERE status != 'RUNNING' ORDER BY 1"),
        "versions": read(mlflow, "SELECT name, version, run_id FROM model_versions ORDER BY 1, 2"),
        "champions": read(mlflow, "SELECT name, alias, version FROM registered_model_aliases"),
        "bundle": sorted(path.name for path in (day.home / "runs" / "anna" / "first" / "bundle").iterdir()),
    }


def evening(day: Day, people: tuple[User, ...], before: dict[str, Any], running: str) -> None:
    """On the restored home: everything is there, what ran goes on, and new jobs run."""
    root, anna, ben, carla = people
    assert facts(day, root) == before
    step = day.step("ben", "long")
    wait(lambda: day.step("ben", "long") > step + 10, lambda: ben.run("job", running))
    assert ben.rows("job", running)[0]["attempts"][-2]["outcome"] == "lost"
    assert [one["state"] for one in ben.rows("stop", running, "jobs.stop_timeout=300")] == ["stopped"]
    (nightly,) = carla.rows("jobs", "tag=nightly", "jobs.show=1")
    jobs = [anna.submit("train", *CORPUS, *SHORT, "name=second"), carla.submit("--from", nightly["id"])]
    day.wait_for_ends()
    assert [day.state(job) for job in jobs] == ["succeeded"] * 2, root.run("jobs")
    versions = read(day.home / "mlflow" / "mlflow.db", "SELECT version FROM model_versions ORDER BY 1")
    assert versions == [(1,), (2,)]
