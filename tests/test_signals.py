"""A signal at a random moment of a verb: a line, the exit code 130 or 143, MLflow's run KILLED, nothing left behind.

Each verb four times, at moments drawn by a seed.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from dragoman.pipelines.tracking.server import connect
from dragoman.pipelines.tracking.settings import TrackingConfig
from tests.pipelines.test_train import SETTINGS
from tests.services.jobs.team import serving

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 240.0  # seconds
SMALL = [*(word for word in SETTINGS if not word.startswith(("registry.", "tracking."))), "train.max_steps=60"]
RAY = ["cluster.workers=2"]
VERBS = {
    "shard": ["corpus=everyday", "corpus.pairs=20000"],
    "train": RAY,
    "demo": RAY,
    "evaluate": ["decode.beam=8"],
    "promote": ["promote.trials=2000"],
    "sweep": ["cluster.backend=local", "train.optimizer.lr=choice(0.001,0.002)", "sweep.sampler=grid"],
}
TRAINED = "3/4 promote"  # demo's step after its training
FIRST = {"demo": "experiment=demo", "sweep": "train"}
SERVICE = ["service.endpoint=false", "service.tracking=false", "service.port=0", "service.ports=0", "service.cpus=1"]


@dataclass
class Try:
    """A verb that got a signal: what is wrong with its end."""

    words: list[str]
    number: signal.Signals
    after: float  # seconds, from when it hears signals on
    code: int = 0
    printed: str = ""
    status: str | None = None

    def wrong(self) -> str:
        faults = [word for word in ("Traceback", "SIGSEGV", "SIGABRT", "Fatal Python") if word in self.printed]
        if self.code != 128 + self.number:
            faults.append(f"exit code {self.code}")
        if "interrupted" not in self.printed:
            faults.append("no line")
        if self.status not in (None, "FINISHED" if TRAINED in self.printed else "KILLED"):
            faults.append(f"MLflow says {self.status}")
        return ", ".join(faults)


def start(home: Path, words: list[str]) -> "subprocess.Popen[str]":
    environment = {**os.environ, "DRAGOMAN_HOME": str(home), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "dragoman.services.cli", *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # also where ours is ignored
    )


def hears(process: "subprocess.Popen[str]") -> bool:
    """Whether it has a handler of SIGTERM by now: before, it is a Python that has not begun."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        caught = int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)
        return bool(caught & 1 << (signal.SIGTERM - 1))
    return False


def seconds_of(home: Path, words: list[str], accepted: tuple[int, ...] = (0,)) -> float:
    """How long a verb takes from when it hears signals on."""
    process = start(home, words)
    while not hears(process):
        time.sleep(0.01)
    began = time.monotonic()
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode in accepted, out
    return time.monotonic() - began


def interrupted(home: Path, words: list[str], number: signal.Signals, after: float, run: str) -> Try | None:
    """The verb after its signal; None where it was done before."""
    process = start(home, words)
    while not hears(process) and process.poll() is None:
        time.sleep(0.005)
    time.sleep(after)
    if process.poll() is not None:
        process.communicate()
        return None
    family = [process.pid, *(one.pid for one in psutil.Process(process.pid).children(recursive=True))]
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    printed, _ = process.communicate(timeout=PATIENCE)
    if process.returncode == 0:
        return None  # it was just done
    time.sleep(1.0)  # whatever is left of its workers would write now
    left = [pid for pid in family if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    assert not left, f"{words[0]}: processes stay after {printed}"
    return Try(words, number, after, process.returncode, printed, status(home, run))


def status(home: Path, run: str) -> str | None:
    """Of the run of this name in MLflow; None where there is none."""
    notes = [home / folder / run / "mlflow.json" for folder in ("runs", "sweeps")]
    note = next((one for one in notes if one.is_file()), None)
    if note is None:
        return None
    tracking = TrackingConfig(uri=f"sqlite:///{home}/mlflow/mlflow.db")
    return str(connect(tracking).get_run(json.loads(note.read_text())["run_id"]).info.status)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards, a finished run and its version."""
    folder = tmp_path_factory.mktemp("home")
    for words in (["shard", *SMALL, "cluster.backend=local"], ["train", *SMALL, "cluster.backend=local", "name=done"]):
        seconds_of(folder, words)
    return folder


@pytest.fixture(scope="module")
def service(home: Path) -> Iterator[None]:
    """The job service, which runs the trials of sweeps."""
    with serving(home, *SERVICE):
        yield


def tries(home: Path, verb: str, count: int, seed: int) -> list[Try]:
    """`count` tries of a verb at moments drawn between its start and its end."""
    rng = random.Random(seed)
    words = [verb, *SMALL, *VERBS[verb]]
    if verb in FIRST:
        words.insert(1, FIRST[verb])
    accepted = (0, 1) if verb == "promote" else (0,)
    lasts = seconds_of(home, [*words, *named(home, verb, f"{verb}-measured")], accepted)
    found: list[Try] = []
    for turn in range(4 * count):
        name = f"{verb}{seed}-{turn}"
        number = rng.choice([signal.SIGINT, signal.SIGTERM])
        one = interrupted(home, [*words, *named(home, verb, name)], number, lasts * rng.random(), name)
        found += [one] if one else []
        if len(found) == count:
            break
    return found


def named(home: Path, verb: str, name: str) -> list[str]:
    """What a try has for itself, so that each begins anew."""
    if verb == "shard":
        return [f"paths.shards={home}/{name}"]
    if verb == "demo":
        return [f"name={name}", f"paths.shards={home}/{name}", "promote.force=true", "promote.reason=try"]
    return ["name=done"] if verb in ("evaluate", "promote") else [f"name={name}"]


def check(found: list[Try], count: int) -> None:
    for one in found:
        print(f"{one.words[0]}, {one.number.name} after {one.after:.1f} s: {one.code}, MLflow {one.status}")
    wrong = [f"{one.words[0]} after {one.after:.1f} s: {one.wrong()}" for one in found if one.wrong()]
    assert not wrong, "\n".join([*wrong, *(one.printed for one in found if one.wrong())])
    assert len(found) == count


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"sweep"}))
def test_signals_at_many_random_moments_end_a_verb_in_order(home: Path, verb: str) -> None:
    check(tries(home, verb, 4, seed=2), 4)


@pytest.mark.usefixtures("service")
def test_signals_at_many_random_moments_end_a_sweep_in_order(home: Path) -> None:
    check(tries(home, "sweep", 4, seed=2), 4)
