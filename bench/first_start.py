"""A first start of `dragoman up` and its first token, killed at 30 moments; seconds of the next start against a first.

At every other moment `up` alone is killed, otherwise all of its processes, as when a machine loses its power. A new
home is used each time. The next start must be ready, MLflow must answer, and a token must let its holder in. The first
token is asked for at once, while the programs start. Exits with 1 if a home is broken.

    python -m bench first_start [--quick] [MOMENTS]
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from bench.result import Result
from dragoman.model.ports import free_ports

PATIENCE = 300.0  # seconds for a start


def run(quick: bool, args: list[str]) -> Result:
    """Seconds of the slowest start after a killed one, and of an undisturbed first start."""
    moments = int(args[0]) if args else 3 if quick else 30
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "whole")
        whole = home.start_and_check()
        home.end()
        print(f"undisturbed: {whole:.1f} s", flush=True)
        took, broken = [], 0
        for number in range(moments):
            home = Home(Path(folder) / str(number))
            at = whole * (number + 0.5) / moments
            state = home.start_and_kill(at, alone=bool(number % 2))
            try:
                took.append(home.start_and_check())
                said = f"ready after {took[-1]:.1f} s"
            except (TimeoutError, urllib.error.URLError) as problem:
                broken += 1
                said = f"BROKEN: {problem}; {home.log[-300:]!r}"
            home.end()
            print(f"killed after {at:5.1f} s, {state}: {said}", flush=True)
            shutil.rmtree(home.folder, ignore_errors=True)
    print(f"{moments} moments, {broken} broken homes, next starts {statistics.median(took):.1f} s in the median")
    if broken:
        sys.exit(1)
    return Result("first_start", max(took), whole, "s, the slowest start after a killed one, and a first", "baseline")


class Home:
    """A home, its `up`, and the first token."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, ""
        folder.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        port, ports = free_ports(1)[0], free_ports(2)[1]
        self.address, self.tracking = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ports}"
        # no Ray: it makes no files in the home, and takes most of the time
        words = [f"service.port={port}", f"service.ports={ports}", "service.endpoint=false"]
        command = [sys.executable, "-m", "dragoman", "up", *words, "service.address=http://127.0.0.1:9"]
        environment = {**os.environ, "DRAGOMAN_HOME": str(self.folder / "home")}
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log)

    def start_and_check(self) -> float:
        """Returns the seconds until the service and MLflow answer, and a token lets its holder in."""
        began = time.monotonic()
        self.start()
        while not (self.issue() and self.answers(f"{self.tracking}/health") and self.answers(f"{self.address}/v1/me")):
            if time.monotonic() - began > PATIENCE or self.process is None or self.process.poll() is not None:
                raise TimeoutError("it does not get ready")
            time.sleep(0.1)
        return time.monotonic() - began

    def start_and_kill(self, after: float, alone: bool) -> str:
        """Kills a start after so many seconds, and returns what was there."""
        began = time.monotonic()
        self.start()
        assert self.process is not None
        while time.monotonic() - began < after:
            self.issue()
            time.sleep(0.05)
        hit = [psutil.Process(self.process.pid)]
        if not alone:
            hit += hit[0].children(recursive=True)
        for one in hit:
            with contextlib.suppress(psutil.Error):
                one.kill()
        self.process.wait()
        time.sleep(1.0)
        files = sum(path.is_file() for path in (self.folder / "home").rglob("*"))
        return f"{'up alone' if alone else f'{len(hit)} processes'}, {files} files, {'a' if self.token else 'no'} token"

    def issue(self) -> bool:
        """Issues the first token, if it is not there."""
        if not self.token:
            body = json.dumps({"name": "me", "owner": "me", "role": "admin"}).encode()
            headers = {"Content-Type": "application/json", "X-Dragoman-Owner": "me"}
            with contextlib.suppress(OSError, KeyError, ValueError):
                request = urllib.request.Request(f"{self.address}/v1/tokens", body, headers)
                self.token = json.load(urllib.request.urlopen(request, timeout=60))["token"]
        return bool(self.token)

    def answers(self, address: str) -> bool:
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {self.token}"})
        try:
            return bool(urllib.request.urlopen(request, timeout=10).status == 200)
        except OSError:
            return False

    def end(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)
