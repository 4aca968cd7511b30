"""Whatever a job leaves in its files: the service goes on, its pages answer, and the job is marked."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

from dragoman.model.errors import ServiceError
from dragoman.model.runs.lines import JOURNAL, JournalReader
from dragoman.model.runs.spool import pending
from dragoman.model.untrusted import read_object
from dragoman.services.commands.inspect import read_run
from dragoman.services.commands.runs import run_folders
from dragoman.services.jobs.executor import Start
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.accounts import Progress, progress
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import ENDED, State
from tests.services.jobs.at_work import client
from tests.services.jobs.processes import bring, make_loop

pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
GIGABYTE = 1 << 30
LINES = [{"step": step, "loss": 2.0, "lr": 0.1, "tokens": 10, "seconds": step * 0.5} for step in range(1, 21)]
RUN_FILES = {
    "steps.jsonl": "".join(json.dumps(line) + "\n" for line in LINES),
    "run.json": json.dumps({"shards": "ab" * 32, "seed": 1, "loader": {"lanes": 2}}),
    "release.json": json.dumps({"run_id": "r", "model": "m", "version": "1", "bleu": "BLEU|x = 30.0 1/2"}),
    "mlflow.json": json.dumps({"run_id": "f" * 32, "offset": 0}),
    "evaluation.test.json": json.dumps({"scores": {"bleu": 30.0}}),
    "spool/records.jsonl": "{}\n",
    "bundle/config.json": json.dumps({"scores": {"test": {"bleu": 30.0}}}),
    "attempt": "1",
    "checkpoints": "",
}
ATTEMPT_FILES = ("a1.json", "a1.log", "a1.request", "a1.lock")
SHOWN = {"steps.jsonl", "run.json", "release.json", "mlflow.json", "a1.json"}  # a job's page says what is wrong


def replace(path: Path, content: bytes | None) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)


def sparse(path: Path) -> None:
    replace(path, b"")
    os.truncate(path, GIGABYTE)


def folder(path: Path) -> None:
    replace(path, None)
    (path / "inside").mkdir(parents=True)


def pipe(path: Path) -> None:
    replace(path, None)
    os.mkfifo(path)


def circle(path: Path) -> None:
    """Cannot be read, by root neither."""
    replace(path, None)
    path.symlink_to(path.name)


def torn(path: Path) -> None:
    content = path.read_bytes() if path.is_file() else b""
    replace(path, content[: len(content) // 2] + b"\n" + content)


def text(content: str) -> Callable[[Path], None]:
    return lambda path: replace(path, content.encode())


HUGE = "9" * 400
DAMAGES: dict[str, Callable[[Path], None]] = {
    "torn": torn,
    "binary": lambda path: replace(path, bytes(range(256)) * 64 + b"\n"),
    "folder": folder,
    "missing": lambda path: replace(path, None),
    "gigabyte": sparse,
    "pipe": pipe,
    "unreadable": circle,
    "not a number": text('{"step": NaN, "loss": NaN, "seconds": NaN, "code": NaN, "offset": NaN, "bleu": NaN}\n'),
    "huge": text(f'{{"step": {HUGE}, "loss": {HUGE}, "seconds": {HUGE}, "code": {HUGE}, "tokens": {HUGE}}}\n'),
    "longer than int takes": text('{"step": 1' + "0" * 5000 + ', "code": 1' + "0" * 5000 + "}\n"),
    "negative": text('{"step": -1, "loss": 1, "seconds": -5, "tokens": -1, "code": -1, "offset": -9}\n'),
    "other kinds": text('{"scores": [1], "run_id": {}, "version": [], "model": {}, "bleu": {}, "code": {}}\n'),
    "deep": text("[" * 100_000 + "\n"),
    "half a letter": text('{"run_id": "\\ud800", "model": "\\ud800", "version": "\\ud800", "step": 1, "\\ud800": 1}\n'),
    "names": text("".join(f'{{"step": {n}, "n{n}": 1, "loss": 1}}\n' for n in range(1000))),
}
SOUND = {"missing"}  # of steps.jsonl this says that nothing was trained yet


@pytest.fixture(autouse=True)
def hurry() -> Iterator[None]:
    """Whatever blocks fails."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError("it blocks")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    home = tmp_path_factory.mktemp("home")
    one = make_loop(f"sqlite:///{home}/ledger.db", home, cpus=1000, losses=0)
    one.attempts.settling = 0.0
    one.look()
    yield one
    one.ledger.database.close()


@pytest.fixture(scope="module")
def browser(loop: Loop) -> Iterator[httpx.Client]:
    loop.config.rate = 1e6  # a fast machine asks more often than one person may
    with client(loop) as http:
        yield http


def running(loop: Loop, name: str) -> Job:
    """A training whose attempt runs, with all of its files."""
    run = loop.home / name / "run"
    for file, content in RUN_FILES.items():
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_text(content)
    replace(run / "checkpoints", None)
    (run / "checkpoints" / "step-00000005").mkdir(parents=True)
    job = loop.ledger.submit("anna", "train", [f"run={run}", "steps=40"])
    loop._take()
    job = bring(loop.ledger, loop.ledger.job(job.id), State.RUNNING)
    attempt = attempt_of(loop.home, job.id, 1)
    attempt.folder.mkdir(parents=True)
    attempt.write(pid=1)
    attempt.log.write_text("step 1\n")
    attempt.lock.write_bytes(b"")
    return job


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_a_job_stops_nothing_and_is_shown(damage: str, loop: Loop, browser: httpx.Client) -> None:
    """One job for each file, with that file damaged, beside a sound one."""
    files = (*RUN_FILES, *ATTEMPT_FILES)
    names = {file: f"{damage}-{number}".replace(" ", "-") for number, file in enumerate(files)}
    bad = {file: running(loop, name) for file, name in names.items()}
    attempts = {file: attempt_of(loop.home, job.id, 1) for file, job in bad.items()}
    runs = {file: loop.home / name / "run" for file, name in names.items()}
    paths = {file: (attempts[file].folder if file in ATTEMPT_FILES else runs[file]) / file for file in names}
    good = running(loop, f"{names['attempt']}-sound")
    attempt_of(loop.home, good.id, 1).write(code=0)
    with contextlib.ExitStack() as locks:
        for file, path in paths.items():
            fcntl.flock(locks.enter_context(attempts[file].lock.open()), fcntl.LOCK_SH)
            DAMAGES[damage](path)
        loop.look()
        assert loop.ledger.job(good.id).state == State.SUCCEEDED
        for place in ("/", "/v1/jobs", "/metrics"):
            assert browser.get(place).status_code == 200, place
        for file, job in bad.items():
            notes = look_at_everything(browser, job, runs[file])
            if file in SHOWN and damage not in SOUND and not (file != "a1.json" and DAMAGES[damage] is torn):
                assert (file in notes) == is_damaged(paths[file]), file
            if file != "a1.json":
                attempts[file].write(code=1)
    loop.look()
    for file, job in bad.items():
        ended = loop.ledger.job(job.id)
        assert ended.state in ENDED or file == "a1.lock" or damage == "missing", file
        if file == "steps.jsonl" and ended.state in ENDED:
            assert ("its steps.jsonl" in ended.reason) == bool(progress(str(runs[file])).damage)
        assert browser.get(f"/jobs/{job.id}").status_code == 200, file
        with contextlib.suppress(Exception):
            loop.ledger.end(ended, State.FAILED, "failed", "", "the test is over", 1)
        replace(paths[file], None)  # a gigabyte, even a sparse one, is not kept


def is_damaged(path: Path) -> bool:
    if path.name == "steps.jsonl":
        return bool(progress(str(path.parent)).damage)
    notes: list[str] = []
    found = read_object(path, notes)
    return bool(notes) or (path.name == "a1.json" and "code" in found)


def look_at_everything(browser: httpx.Client, job: Job, run: Path) -> str:
    """All that reads a job's files; returns the job's page."""
    assert browser.get(f"/jobs/{job.id}/log").status_code == 200
    for place in ("", "/logs", "/curves"):
        assert browser.get(f"/v1/jobs/{job.id}{place}").status_code == 200, place
    assert pending(run) >= 0
    assert read_run(run)["kind"] == "run"
    for one in run_folders(run.parent):
        assert one.path != run or all(isinstance(word, str) for word in (one.state, one.score, one.version))
    page = browser.get(f"/jobs/{job.id}")
    assert page.status_code == 200
    return page.text


def test_a_damaged_line_is_named_and_the_rest_of_the_journal_counts(tmp_path: Path) -> None:
    lines = RUN_FILES["steps.jsonl"].splitlines()
    lines[11] = '{"step": 12, "loss"'
    (tmp_path / "steps.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "checkpoints" / "step-00000010").mkdir(parents=True)
    for strange in ("step-²", "step-" + "9" * 200, "step-", "step--1"):
        (tmp_path / "checkpoints" / strange).mkdir()
    assert progress(str(tmp_path)) == Progress(20, 10, 10.0, 5.0, "its steps.jsonl line 12 is damaged")


def test_of_a_gigabyte_only_the_end_is_read_and_little_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    sparse(path)
    with path.open("ab") as file:
        file.write(b"\n" + RUN_FILES["steps.jsonl"].encode())
    tracemalloc.start()
    reader = JournalReader(path)
    assert [line["step"] for line in reader.lines()] == list(range(1, 21))
    assert tracemalloc.get_traced_memory()[1] < JOURNAL
    tracemalloc.stop()
    assert any("newest part" in note for note in reader.notes)
    with path.open("ab") as file:
        file.write(b'{"step": 21}\n{"ste')
    assert [line["step"] for line in reader.lines()] == [21]
    assert list(reader.lines()) == []
    with path.open("ab") as file:
        file.write(b'p": 22}\n')
    assert [line["step"] for line in reader.lines()] == [22]


def test_what_fails_for_one_job_is_logged_once_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path, cpus=10)
    jobs = [one.ledger.submit("anna", "train", [f"run={tmp_path}/r{n}", "steps=1"]) for n in range(3)]
    one._take()
    started: list[str] = []

    def submit(start: Start) -> None:
        if start.job == jobs[1].id:
            raise problems[0]
        started.append(start.job)

    monkeypatch.setattr(one.executor, "submit", submit)
    problems: list[Exception] = [ValueError("no such thing")]
    for _ in range(3):
        one.look()
    assert {jobs[0].id, jobs[2].id} <= set(started)
    assert one.notes(one.ledger.job(jobs[1].id)) == ["the service could not see to this job: ValueError: no such thing"]
    problems[0] = ServiceError("refused")
    for _ in range(3):
        one.look()
    said = [record.getMessage() for record in caplog.records if jobs[1].id in record.getMessage()]
    assert (
        len([line for line in said if "no such thing" in line])
        == len([line for line in said if "refused" in line])
        == 1
    )
    one.ledger.database.close()


def test_a_fault_of_the_planner_fails_one_job_and_not_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path)
    real = one.intake.planner.plan

    def plan(verb: str, words: list[str], *more: Any) -> dict[str, Any]:
        if "bad" in words[0]:
            raise KeyError("seconds")
        return real(verb, words, *more)

    monkeypatch.setattr(one.intake.planner, "plan", plan)
    bad, good = (one.ledger.submit("anna", "train", [f"run={tmp_path}/{name}", "steps=1"]) for name in ("bad", "good"))
    one._take()
    assert one.ledger.job(bad.id).state == State.FAILED
    assert one.ledger.job(good.id).state == State.WAITING
    one.ledger.database.close()
