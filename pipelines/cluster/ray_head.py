"""Keeps a Ray head of our own: `python -m dragoman.pipelines.cluster.ray_head ADDRESS CPUS SECONDS`.

It runs `ray start` while the command that asked for it imports torch. It prints one line when the head is up, and ends
the head when its standard input ends: when the command asks for that or is gone. A head that is not up after SECONDS
has failed; standard error has the last line that Ray printed.
"""

import contextlib
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from dragoman.model.files import socket_folder
from dragoman.model.ports import free_ports

OBJECT_STORE = 256 * 2**20  # bytes of shared memory: our data does not use it
END_TIMEOUT = 2.0  # seconds for Ray's processes to end; an actor of Ray Train's own never does by itself
READY = "Ray runtime started"  # printed by `ray start`


def main(words: Sequence[str]) -> int:
    """Returns the exit code; 1 if the head does not start, with what it waited for on standard error."""
    address, cpus, seconds = words
    folder = socket_folder("dragoman-ray-")
    try:
        log = folder / "start.log"
        with log.open("wb") as output, _head(address, cpus, folder, output.fileno()) as head:
            until = time.monotonic() + float(seconds)
            while READY not in (text := log.read_text(encoding="utf-8", errors="replace")):
                if head.poll() is not None or time.monotonic() > until:
                    last = text.strip().rpartition("\n")[2] or "it printed nothing"
                    sys.stderr.write(last.removeprefix("Exception: ")[:300])
                    return 1
                if _ended(0.05):
                    return 0
            print("up", flush=True)
            _ended(None)
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ended(seconds: float | None) -> bool:
    """Returns True if standard input has ended; waits for at most so many seconds."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


@contextlib.contextmanager
def _head(address: str, cpus: str, folder: Path, output: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs the head within the block; afterwards none of its processes is left."""
    port = address.rpartition(":")[2]
    (client,) = free_ports(1)
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--num-cpus={cpus}"),
        *("--node-ip-address=127.0.0.1", f"--port={port}", f"--ray-client-server-port={client}"),
        *("--min-worker-port=0", "--max-worker-port=0", "--metrics-export-port=0", "--dashboard-agent-listen-port=0"),
        *("--include-dashboard=false", "--no-monitor", "--include-log-monitor=false", "--disable-usage-stats"),
        # in our folder, because Ray opens its own to everybody
        *(f"--object-store-memory={OBJECT_STORE}", f"--temp-dir={folder / 'r'}"),
    ]
    head = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield head
    finally:
        below = psutil.Process().children(recursive=True)
        head.terminate()
        _, alive = psutil.wait_procs(below, timeout=END_TIMEOUT)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        head.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
