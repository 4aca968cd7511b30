"""The demo's steps as processes of their own. What they say goes to a file, and its newest line to the terminal.

Each step is the command that a user would type. Every process is stopped at the end, however the demo ends.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.conf import compose
from dragoman.conf.interrupts import held_signals
from dragoman.model.durations import duration
from dragoman.model.repeated import repeated

END_SECONDS = 120.0  # for a step to end by itself: a training writes a checkpoint and tells MLflow that it was killed
LOOK_SECONDS = 0.5  # between two looks at what a step says
LINE_SECONDS = 30.0  # between two lines without a terminal
LAST_LINES = 12  # of a failed step
VERBS = {
    "shard": "packs a corpus into shards",
    "train": "two workers train a Transformer; it is averaged, scored and registered",
    "promote": "the new version becomes champion if it is better than the one before",
    "serve": "the endpoint starts on a free port and translates",
}


class StepFailedError(Exception):
    """A step ended with this exit code. `said`: its last lines."""

    def __init__(self, verb: str, code: int, said: str) -> None:
        super().__init__(f"{verb} ended with exit code {code}")
        self.code, self.said = code, "\n".join(said.splitlines()[-LAST_LINES:])


@dataclass
class Step:
    """A running step."""

    begin: int  # its position in the log
    result: str = ""  # the line about it, once it has ended


class Steps:
    """Runs the steps one after the other. `log` receives all that they say."""

    def __init__(self, log: Path) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")

    def run(
        self, verb: str, words: Sequence[str], result: Callable[[str], str], accepted: Sequence[int] = (0,)
    ) -> None:
        """Runs a command to its end, and prints the line that `result` makes of what it said.

        Raises StepFailedError: an exit code other than the accepted ones.
        """
        with self._shown(verb, words) as step:
            with self._child(verb, words) as process:
                code = process.wait()
            said = self._said(step)
            if code not in accepted:
                raise StepFailedError(verb, code if code > 0 else 128 - code, said)
            step.result = result(said)

    @contextlib.contextmanager
    def endpoint(self, words: Sequence[str]) -> Iterator[str]:
        """Runs the endpoint on a free port during the block; yields its address.

        Raises StepFailedError: it did not start.
        """
        words = [*words, "serve.port=0"]
        with self._shown("serve", words) as step, self._child("serve", words, subprocess.PIPE) as process:
            assert process.stdout is not None
            with process.stdout:
                address = process.stdout.readline().strip()
                if not address:
                    code = process.wait() or compose.FAILED
                    raise StepFailedError("serve", code, self._said(step))
                step.result = f"{address} translates"
                yield address

    @contextlib.contextmanager
    def _shown(self, verb: str, words: Sequence[str]) -> Iterator[Step]:
        """Shows the newest line of a step within the block, and its result after it."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"\n$ {shlex.join(['dragoman', verb, *words])}\n")
        step, line = Step(self.log.stat().st_size), _Line(verb)
        try:
            with repeated(lambda last: line.show("" if last else newest_line(self._said(step))), LOOK_SECONDS, "demo"):
                yield step
        except KeyboardInterrupt:
            if said := self._said(step):
                print(newest_line(said), file=sys.stderr)  # what it has kept, and how to go on
            raise
        print(line.text(step.result), flush=True)

    @contextlib.contextmanager
    def _child(self, verb: str, words: Sequence[str], stdout: int | None = None) -> Iterator["subprocess.Popen[str]"]:
        """Starts a step, and ends it with the block if it has not ended itself. `stdout`: instead of the log."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}  # its lines come in their order
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(self.log.open("a", encoding="utf-8"))
            with held_signals("there is something to end"):
                process = subprocess.Popen(
                    command(verb, words), stdout=stdout or log, stderr=log, text=True, env=environment
                )
                stack.callback(end, process)
            yield process

    def _said(self, step: Step) -> str:
        """Returns what a step has said until now."""
        with self.log.open("rb") as file:
            file.seek(step.begin)
            return file.read().decode("utf-8", "replace")


class _Line:
    """The line about a step that runs: a live one on a terminal, else the step's title and a line now and then."""

    def __init__(self, verb: str) -> None:
        self.verb, self.began = verb, time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._next = self.began + LINE_SECONDS
        if not self._terminal:
            print(f"{title(verb)}{VERBS[verb]}", flush=True)

    def show(self, text: str) -> None:
        """Shows the newest text, or clears the live line for the last time if it is empty."""
        if self._terminal:
            columns = shutil.get_terminal_size().columns
            sys.stdout.write(f"\r\033[K{self.text(text)[: columns - 1] if text else ''}")
            sys.stdout.flush()
        elif text and time.monotonic() >= self._next:
            self._next += LINE_SECONDS
            print(self.text(text), flush=True)

    def text(self, said: str) -> str:
        """Returns a line about the step: its name, its time until now, and what was said."""
        return f"{title(self.verb)}{duration(time.monotonic() - self.began):>11} | {said}"


def title(verb: str) -> str:
    """Returns the beginning of a step's lines, "2/4 train    "."""
    return f"{list(VERBS).index(verb) + 1}/{len(VERBS)} {verb:<9}"


def newest_line(said: str) -> str:
    """Returns the last line of a step; before the first one, a text that says so."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "starts"


def end(process: "subprocess.Popen[str]") -> None:
    """Ends a process gracefully. The terminal may have interrupted it too; SIGTERM does no harm then."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def command(verb: str, words: Sequence[str]) -> list[str]:
    """Returns the command of a step."""
    return [sys.executable, "-m", "dragoman.services.cli", verb, *words]
