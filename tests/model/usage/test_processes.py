"""The use of processes is counted once, and stays counted when they end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dragoman.model.usage.processes import Processes

WORK = (
    "import os, sys, time\n"
    "while time.process_time() < 0.4: pass\n"
    "with open(sys.argv[1], 'wb') as file:\n"
    "    file.write(b'x' * 4_000_000); file.flush(); os.fsync(file.fileno())\n"
)
WAIT = "print('ready', flush=True)\ntime.sleep(600)\n"


def ready(process: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_child_that_came_and_went_between_two_looks_is_counted(tmp_path: Path) -> None:
    processes = Processes({})
    before = processes.look()
    subprocess.run([sys.executable, "-c", WORK, tmp_path / "file"], check=True)
    after = processes.look()
    assert after.count.cpu - before.count.cpu > 0.35
    again = processes.look()
    assert again.count.cpu >= after.count.cpu
    assert os.getpid() in again.pids


def test_of_a_seen_child_the_memory_goes_with_it_and_the_count_stays(tmp_path: Path) -> None:
    processes = Processes({})
    command = [sys.executable, "-c", WORK + WAIT, tmp_path / "file"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        with_child = processes.look()
        ready(child)
        with_child = processes.look()
        assert child.pid in with_child.pids
        child.kill()
        deadline = time.monotonic() + 60
        while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            time.sleep(0.01)
        unread = processes.look()  # nobody has waited for it yet
        child.wait()
    after = processes.look()
    assert unread.count.cpu >= with_child.count.cpu
    assert with_child.count.cpu <= after.count.cpu < with_child.count.cpu + 0.4  # once, not twice
    assert after.memory < with_child.memory
    assert child.pid not in after.pids


def test_a_process_with_the_jobs_variables_counts_wherever_it_hangs_and_after_its_end(tmp_path: Path) -> None:
    marks = {"DRAGOMAN_JOB": f"j{os.getpid()}", "DRAGOMAN_ATTEMPT": "1"}
    processes, others = Processes(marks), Processes({**marks, "DRAGOMAN_ATTEMPT": "2"})
    # the middle one ends at once, so the worker becomes a child of the system's first process, as a worker of Ray
    begin = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], stdout=-3).pid)"
    work = WORK + "open(sys.argv[1] + '.ready', 'w').close()\ntime.sleep(600)\n"
    done = subprocess.run(
        [sys.executable, "-c", begin, work, str(tmp_path / "file")],
        env={**os.environ, **marks},
        **{"check": True, "stdout": subprocess.PIPE, "start_new_session": True},
    )
    worker = psutil.Process(int(done.stdout))
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "file.ready").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        with_worker, without = processes.look(), others.look()
        assert worker.pid in with_worker.pids and worker.pid not in without.pids
    finally:
        worker.send_signal(signal.SIGKILL)
    psutil.wait_procs([worker], timeout=60)
    after = processes.look()
    assert worker.pid not in after.pids
    assert after.count.cpu >= with_worker.count.cpu  # no process of ours has waited for it


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system counts no bytes by process")
def test_bytes_written_by_an_ended_child_stay(tmp_path: Path) -> None:
    if psutil.disk_io_counters() is None:
        pytest.skip("no disk is counted here")
    processes = Processes({})
    before = processes.look().count
    subprocess.run([sys.executable, "-c", WORK, tmp_path / "file"], check=True)
    written = processes.look().count.written - before.written
    if written == 0:
        pytest.skip(f"{tmp_path} lies in memory")
    assert written >= 4_000_000
