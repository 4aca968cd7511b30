"""A home with 10,000 jobs is copied, restored and served again, and a ledger of version 0.2.0 is upgraded: seconds.

    python -m bench backup [--quick]

The commands are those that users type, each in a process of its own. The home has 10,000 ended jobs with plans,
attempts, histories and logs, 200 MLflow runs and 50 folders of runs with 4 MB of weights each (--quick: 1,000, 20 and
5). The figure is the time from the restore's start to the first answer of `dragoman up` on the restored home, with Ray
and MLflow; against it stands the same with a plain copy of the home in the restore's place. The rest is printed.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import insert

from bench.result import Result
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.tables import Attempt, Change, Job
from dragoman.services.jobs.states import State

REPOSITORY = Path(__file__).resolve().parents[1]
BEFORE = REPOSITORY / "tests" / "services" / "jobs" / "tables" / "0.2.0-sqlite.sql"
COMMAND = [sys.executable, "-m", "dragoman.services.cli"]
SETTINGS = ["service.endpoint=false", "service.port=0", "service.ports=0"]
STATES = ("submitted", "planned", "waiting", "starting", "running", "succeeded")
METRICS = 50  # of an MLflow run
PATIENCE = 300.0  # seconds until the service answers


def run(quick: bool, args: Sequence[str]) -> Result:
    """Seconds from the start of a restore to the first answer."""
    jobs, tracked, weights = (1000, 20, 5) if quick else (10_000, 200, 50)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home, archive = folder / "home", folder / "archive"
        make_home(home, jobs, tracked, weights)
        files = [path for path in home.rglob("*") if path.is_file()]
        print(f"{jobs:,} jobs; {len(files):,} files of {sum(path.stat().st_size for path in files) / 1e6:.0f} MB")
        tell("a backup into an empty archive", command("backup", archive, home))
        tell("the next backup, of an unchanged home", command("backup", archive, home))
        tell("check", command("backup", archive, home, "check"))
        restored = tell("restore", command("restore", archive, folder / "restored"))
        answered = tell("until the restored home answers", first_answer(folder / "restored", jobs))
        began = time.perf_counter()
        shutil.copytree(home, folder / "copied")
        copied = tell("a plain copy", time.perf_counter() - began)
        again = tell("until the copy answers", first_answer(folder / "copied", jobs))
        tell(f"upgrade of a ledger of 0.2.0 with {jobs:,} jobs", upgrade(folder / "before.db", jobs))
    return Result("backup", restored + answered, copied + again, "s from the restore to the first answer", "baseline")


def tell(what: str, seconds: float) -> float:
    """Prints and returns it."""
    print(f"{what}: {seconds:.1f} s", flush=True)
    return seconds


def command(verb: str, archive: Path, home: Path, *words: str) -> float:
    """Seconds of `dragoman backup` or `dragoman restore`."""
    began = time.perf_counter()
    line = [*COMMAND, verb, str(archive), *words]
    subprocess.run(line, check=True, cwd=REPOSITORY, env=environment(home), stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def first_answer(home: Path, jobs: int) -> float:
    """Seconds from the start of `dragoman up` to a list that knows all jobs."""
    began = time.perf_counter()
    with up(home):
        address = home / "service" / "address.json"
        while True:
            with contextlib.suppress(OSError, httpx.HTTPError):
                found = httpx.get(f"{json.loads(address.read_text())['jobs']}/v1/jobs", params={"limit": 1}, timeout=60)
                break
            if time.perf_counter() - began > PATIENCE:
                raise RuntimeError(f"no answer in {PATIENCE:g} s; {home}.said says why")
            time.sleep(0.05)
        seconds = time.perf_counter() - began
    counts = found.raise_for_status().json()["counts"]
    if counts != {"succeeded": jobs}:
        raise RuntimeError(f"of {jobs} jobs the service knows {counts}")
    return seconds


@contextlib.contextmanager
def up(home: Path) -> Iterator[None]:
    """`dragoman up` at work on the home."""
    with home.with_suffix(".said").open("w") as said:
        process = subprocess.Popen(
            [*COMMAND, "up", *SETTINGS], cwd=REPOSITORY, env=environment(home), stdout=said, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def environment(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "MLFLOW_", "DRAGOMAN_"))}
    return {**kept, "DRAGOMAN_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}


def make_home(home: Path, jobs: int, tracked: int, weights: int) -> None:
    """Fills an empty folder."""
    (home / "service").mkdir(parents=True)
    prefix = fill_ledger(f"sqlite:///{home}/service/ledger.db", jobs)
    drawn = random.Random(1)
    for number in range(1, jobs + 1):
        log = home / "jobs" / f"{prefix}-{number}" / "a1.log"
        log.parent.mkdir(parents=True)
        log.write_text("".join(f"step {step}/600 | loss {drawn.random():.3f}\n" for step in range(100)))
    for number in range(weights):
        run = home / "runs" / f"r{number}"
        run.mkdir(parents=True)
        (run / "weights").write_bytes(drawn.randbytes(4_000_000))
        (run / "steps.jsonl").write_text(
            "".join(json.dumps({"step": step, "loss": 1.0}) + "\n" for step in range(2000))
        )
    fill_mlflow(home / "mlflow", tracked)


def fill_ledger(url: str, jobs: int) -> str:
    """Enters ended jobs, each with an attempt and its history; returns the prefix of their ids."""
    database = Database(url)
    began = time.time() - 60.0 * jobs
    plan = {"seconds": {}, "words": [], "filler": "x" * 4000}  # as large as a real one
    entered: list[dict[str, Any]] = []
    attempts: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    for number in range(1, jobs + 1):
        name, at, owner = f"{database.prefix}-{number}", began + 60.0 * number, f"o{number % 50}"
        job: dict[str, Any] = {"seq": number, "id": name, "owner": owner, "verb": "train", "words": [f"name=r{number}"]}
        job |= {"run": f"run r{number}", "after": [], "tags": [], "notify": [], "state": State.SUCCEEDED, "version": 6}
        job |= {"submitted": at, "changed": at + 50, "queued": number, "plan": plan, "choices": [1], "cpus": 1.0}
        entered.append({**job, "attempt": 1, "spent": 40.0, "reason": "exit code 0"})
        ran = {"job": name, "number": 1, "workers": 1, "decided": at + 5, "started": at + 10, "ended": at + 50}
        attempts.append({**ran, "outcome": "succeeded", "cause": "end", "code": 0, "message": ""})
        told = {"job": name, "owner": owner, "actor": "service", "action": "state", "reason": "as it goes"}
        for before, after in zip((None, *STATES), STATES, strict=False):
            changes.append({**told, "at": at, "before": before, "after": after})
    with database.write() as session:
        for table, rows in ((Job, entered), (Attempt, attempts), (Change, changes)):
            session.execute(insert(table), rows)
    prefix = database.prefix
    database.close()
    return prefix


def fill_mlflow(folder: Path, runs: int) -> None:
    """Makes runs with metrics, as a training leaves them."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    folder.mkdir(parents=True)
    address = f"sqlite:///{folder}/mlflow.db"
    client = MlflowClient(tracking_uri=address, registry_uri=address)
    experiment = client.create_experiment("dragoman", f"file://{folder}/artifacts")
    for number in range(runs):
        run = client.create_run(experiment, run_name=f"r{number}").info.run_id
        metrics = [Metric("loss", 1.0 / (step + 1), 1_000 * step, step) for step in range(METRICS)]
        client.log_batch(run, metrics, [Param("seed", str(number)), Param("model", "transformer_tiny")])
        client.set_terminated(run)


def upgrade(path: Path, jobs: int) -> float:
    """Seconds until a ledger that version 0.2.0 wrote, with so many jobs, has today's tables."""
    with contextlib.closing(sqlite3.connect(path)) as ledger, ledger:
        ledger.executescript(BEFORE.read_text(encoding="utf-8").partition("\n\n")[2])
        (first,) = ledger.execute("SELECT id FROM jobs WHERE seq = 1").fetchone()
        prefix = first.rpartition("-")[0]
        for number in range(1000, 1000 + jobs):
            _copy(ledger, "jobs", "id", first, seq=number, id=f"{prefix}-{number}", key=None, queued=number)
            _copy(ledger, "attempts", "job", first, job=f"{prefix}-{number}")
            _copy(ledger, "changes", "job", first, id=None, job=f"{prefix}-{number}")
    began = time.perf_counter()
    Database(f"sqlite:///{path}").close()
    return time.perf_counter() - began


def _copy(ledger: sqlite3.Connection, table: str, by: str, name: str, /, **changed: object) -> None:
    """Copies the rows of a table that belong to a job, with other values in some columns."""
    columns = [row[1] for row in ledger.execute(f'PRAGMA table_info("{table}")')]
    taken = ", ".join(f":{column}" if column in changed else f'"{column}"' for column in columns)
    quoted = ", ".join(f'"{column}"' for column in columns)
    query = f'INSERT INTO "{table}" ({quoted}) SELECT {taken} FROM "{table}" WHERE "{by}" = :_name'
    ledger.execute(query, {**changed, "_name": name})
