"""The starts of a run: RUN/attempt, a number that grows with each, so that a stale worker sees it and stops, and
RUN/starts.jsonl, a line for each that came to training."""

from pathlib import Path

from dragoman.model.files import atomic_write
from dragoman.model.runs.journal import append
from dragoman.model.runs.paths import ATTEMPT, STARTS


class StaleAttemptError(RuntimeError):
    """This process belongs to a start of the run that a later start has replaced."""


def next_attempt(run: Path) -> int:
    """Takes over the run: write its attempt number plus one to the disk, and return it."""
    attempt = current_attempt(run) + 1
    run.mkdir(parents=True, exist_ok=True)
    atomic_write(run / ATTEMPT, str(attempt))
    return attempt


def check_attempt(run: Path, attempt: int) -> None:
    """Raises StaleAttemptError when a later start has taken over."""
    current = current_attempt(run)
    if current != attempt:
        raise StaleAttemptError(f"{run}: attempt {attempt} was replaced by attempt {current}; this process stops")


def current_attempt(run: Path) -> int:
    """Returns the number of the run's last start that came to training; 0 where none did."""
    path = run / ATTEMPT
    return int(path.read_text(encoding="utf-8")) if path.is_file() else 0


def note_start(run: Path, attempt: int, step: int, workers: int) -> None:
    """Adds a line to RUN/starts.jsonl: this start goes on after `step`. Called when the journal is open."""
    append(run, STARTS, {"attempt": attempt, "step": step, "workers": workers})
