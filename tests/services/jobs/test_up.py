"""`dragoman up` with a real Ray: a job from the command line to its log, a mistake refused, nothing left running."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[3]
QUIET = ["service.endpoint=false", "service.tracking=false", "service.port=0", "service.ports=0", "service.cpus=1"]


def test_a_job_of_the_service_runs_on_ray_and_nothing_is_left_behind(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    environment |= {"DRAGOMAN_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY), "LOGNAME": "anna"}
    for name in ("MLFLOW_TRACKING_URI",):
        environment.pop(name, None)

    def dragoman(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "services.cli", *words]
        return subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    said = tmp_path / "said"
    with said.open("w") as file:
        up = subprocess.Popen(
            [sys.executable, "-m", "services.cli", "up", *QUIET],
            cwd=REPOSITORY,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 180
        while "ready" not in said.read_text():
            assert up.poll() is None and time.monotonic() < deadline, said.read_text()
            time.sleep(0.3)
        refused = dragoman("submit", "doctor", "train.max_stps=1")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "unknown key: 'max_stps'" in refused.stderr
        submitted = dragoman("submit", "doctor")
        assert submitted.returncode == 0, submitted.stderr
        job = submitted.stdout.strip()
        followed = dragoman("logs", job, "-f")
        assert followed.returncode in (0, 1), followed.stderr  # what the doctor finds is this machine's
        assert "cores" in followed.stdout
        assert "attempt 1 runs" in dragoman("job", job).stdout
        family = psutil.Process(up.pid).children(recursive=True)
        assert family
        other = dragoman("up", *QUIET)
        assert (other.returncode, "runs on this folder already" in other.stderr) == (2, True)
    finally:
        up.send_signal(signal.SIGINT)
        code = up.wait(120)
    assert code == 0, said.read_text()
    _, left = psutil.wait_procs(family, timeout=10)
    assert not left
    assert not (tmp_path / "service" / "address.json").exists()
