"""From `dragoman train` to its first step through an embedded Ray (ours); to that of bare Ray Train (peer), seconds.

    python -m bench start [--quick] [--before FOLDER]

The demo's training on two workers and alone (cluster.backend=local), and an empty train function of Ray Train on two
workers, in turns, each a command of its own; a training's first line in steps.jsonl is its first step. The seconds of
processor time until then, of the command and of all that it has started, are printed too: they depend little on what
else the machine does. FOLDER is a checkout of another version, whose times stand beside.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench.bare_ray_train import start_bare_ray_train
from bench.command_lines import print_command_lines, python_of
from bench.result import Result, in_turns

WORDS = ["experiment=demo", "train.max_steps=3", "train.log_every=1", "registry.register=false", "evaluate.sentences=8"]
PATIENCE = 300.0  # seconds


@dataclass
class Starts:
    """Measures starts over shards that were made once."""

    home: Path
    checkout: Path | None = None  # of another version
    started: int = 0
    cpu: dict[str, list[float]] = field(default_factory=dict)  # backend -> seconds of processor time, a start each

    def seconds(self, backend: str) -> float:
        """Seconds from the command to its first step."""
        self.started += 1
        name = f"start-{self.started}"
        journal = self.home / "runs" / name / "steps.jsonl"
        return self._until(journal, backend, self.command, "train", f"name={name}", f"cluster.backend={backend}")

    def bare(self) -> float:
        """Seconds from the start of bare Ray Train to its train function."""
        self.started += 1
        mark = self.home / f"bare-{self.started}"
        return self._until(mark, "bare", start_bare_ray_train, mark)

    def _until(self, mark: Path, name: str, start: "Callable[..., subprocess.Popen[bytes]]", *words: Any) -> float:
        """Seconds until what `start` starts has written to the file `mark`; it is ended then."""
        began = time.perf_counter()
        command = start(*words)
        seen: dict[int, float] = {}  # process -> its processor time when it was last seen
        try:
            while not (mark.is_file() and mark.stat().st_size):
                if command.poll() is not None or time.perf_counter() - began > PATIENCE:
                    raise RuntimeError(f"{name}: no step")
                seen |= processor_times(command.pid)
                time.sleep(0.02)
            took = time.perf_counter() - began
            self.cpu.setdefault(name, []).append(sum((seen | processor_times(command.pid)).values()))
        finally:
            command.terminate()
            command.wait()
        return took

    def command(self, verb: str, *words: str) -> "subprocess.Popen[bytes]":
        """A verb with the demo's settings, in the home of this measurement."""
        return subprocess.Popen(
            [*python_of(self.checkout), "-m", "dragoman", verb, *WORDS, *words],
            cwd=self.home,
            env={**os.environ, "DRAGOMAN_HOME": str(self.home)},
            stdout=subprocess.DEVNULL,
        )


def processor_times(root: int) -> dict[int, float]:
    """Seconds of each process that `root` or one of its own has started and that is there."""
    found = {}
    try:
        processes = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    except psutil.NoSuchProcess:
        return {}
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found[process.pid] = times.user + times.system
    return found


def run(quick: bool, args: Sequence[str]) -> Result:
    """Seconds to the first step."""
    before = Path(args[1]) if args[:1] == ["--before"] else None
    assert len(args) == (0 if before is None else 2)
    rounds = 1 if quick else 3
    with tempfile.TemporaryDirectory() as folder:
        print_command_lines(rounds, Path(folder), before)
        now = Starts(Path(folder, "now"))
        versions = {"": now} if before is None else {"": now, "before ": Starts(Path(folder, "before"), before)}
        for starts in versions.values():
            starts.home.mkdir()
            if starts.command("shard").wait():
                raise RuntimeError("dragoman shard experiment=demo failed")
            starts.seconds("local")  # what is measured once on a machine, and files that are read for the first time
            starts.cpu.clear()
        found = in_turns(
            rounds,
            **{
                f"{name}{backend}": partial(starts.seconds, backend)
                for name, starts in versions.items()
                for backend in ("ray", "local")
            },
            bare=now.bare,
        )
    for version, starts in versions.items():
        for backend, times in starts.cpu.items():
            spent = ", ".join(f"{each:.1f}" for each in times)
            wall = found[version + backend]
            label = "bare Ray Train" if backend == "bare" else f"{version}cluster.backend={backend}"
            print(f"{label:<28} {wall:5.1f} s to the first step; {spent} s of processor time")
    return Result("start", found["ray"], found["bare"], "seconds to the first step")
