"""A real `dragoman up` with Ray and MLflow in a home, and the command line that talks to it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from services.jobs.states import ENDED

REPOSITORY = Path(__file__).resolve().parents[3]
QUIET = ["service.endpoint=false", "service.port=0", "service.ports=0", "service.cpus=1"]
SMALL = [
    *("experiment=demo", "corpus.pairs=1000", "tokenizer.vocabulary=300", "registry.name=small"),
    *("model.width=32", "model.heads=2", "model.feed_forward=32", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("train.checkpoint_every=10", "train.evaluate_every=40", "evaluate.sentences=20", "cluster.workers=1"),
]
PATIENCE = 600.0  # seconds; a busy machine takes its time


def environment(home: Path, code: Path = REPOSITORY) -> dict[str, str]:
    found = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "MLFLOW_"))}
    return found | {"DRAGOMAN_HOME": str(home), "PYTHONPATH": str(code), "LOGNAME": "anna"}


def _tracking(home: Path) -> dict[str, str]:
    """Returns the variable that names the running service's MLflow, if it runs."""
    try:
        found = json.loads((home / "service" / "address.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {"MLFLOW_TRACKING_URI": found["mlflow"]}


def dragoman(home: Path, *words: str, code: Path = REPOSITORY) -> str:
    """Runs a command to its end and returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", *words],
        cwd=home.parent,
        env=environment(home, code) | _tracking(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@contextlib.contextmanager
def running(home: Path, code: Path = REPOSITORY, words: Sequence[str] = ()) -> Iterator[None]:
    """Yields while the service runs; it ends in order."""
    home.mkdir(parents=True, exist_ok=True)
    said = home.parent / f"{home.name}.said"
    with said.open("w") as file:
        up = subprocess.Popen(
            [sys.executable, "-m", "services.cli", "up", *QUIET, *words],
            cwd=home.parent,
            env=environment(home, code),
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while "ready" not in said.read_text():
            assert up.poll() is None and time.monotonic() < deadline, said.read_text()
            time.sleep(0.2)
        yield
    finally:
        up.send_signal(signal.SIGINT)
        code_of_end = up.wait(PATIENCE)
    assert code_of_end == 0, said.read_text()


def finish(home: Path, job: str) -> None:
    """Waits until the job has succeeded."""
    deadline = time.monotonic() + PATIENCE
    while (state := json.loads(dragoman(home, "job", job, "--json"))["state"]) != "succeeded":
        assert time.monotonic() < deadline and state not in ENDED, dragoman(home, "logs", job)
        time.sleep(0.5)
