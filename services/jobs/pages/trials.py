"""Trials: trainings that differ in a few settings, with those settings and the measures of their validations.

The trials of a sweep, the jobs of an array, or the trainings of any other list. Everything comes from the ledger and
the runs' journals, so it needs neither MLflow nor the study's file.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select

from dragoman.conf.again import key_of
from dragoman.model.runs import paths
from dragoman.model.runs.lines import JournalReader
from dragoman.model.untrusted import finite
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.statements import JOBS
from dragoman.services.jobs.pages.listing import GROUPS, Filter, wanted_jobs
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.states import ENDED, State

MOST = 5000  # trials on a page, the newest
VALUES = 500  # validations of a trial that are kept
REMEMBERED = 20_000  # ended trials whose measures stay in memory
MEASURED = re.compile(rb'"valid_|"epoch_loss"')  # in lines of a journal with a measure
LOWER = ("loss", "perplexity")  # endings of measures that are better when lower
DEFAULT = "valid_loss"
COLUMNS = ("seq", "id", "version", "state", "words", "run", "changed", "started", "spent")
Measures = Mapping[str, Sequence[float]]  # measure -> its values, by validation


@dataclass(frozen=True)
class Trial:
    """A training; `settings` are those in which the trials differ, as written."""

    job: str
    name: str
    state: State
    changed: float
    seconds: float  # of its ended attempts
    since: float | None  # when it would have begun, had it run all the time until now; None: it does not run
    measures: Measures
    settings: Mapping[str, str] = field(default_factory=dict)

    def score(self, measure: str) -> float | None:
        """Returns its best value of a measure; None if it has none yet."""
        values = self.measures.get(measure)
        return (min if is_lower(measure) else max)(values) if values else None

    def ran(self, now: float) -> float:
        """Returns the seconds that it has run."""
        return self.seconds if self.since is None else now - self.since


@dataclass(frozen=True)
class Trials:
    """All trials of a list, oldest first."""

    rows: Sequence[Trial]
    keys: Sequence[str]  # settings in which they differ
    measures: Sequence[str]  # of any of them, the usual one first
    cut: bool  # True if there are more than MOST


def is_lower(measure: str) -> bool:
    """Returns True if lower values of the measure are better."""
    return measure.endswith(LOWER)


class TrialReader:
    """Reads trials; remembers the measures of those that have ended, whose journals do not change."""

    def __init__(self) -> None:
        self._ended: dict[str, tuple[int, Measures]] = {}  # job -> its version, and measures
        self._lock = threading.Lock()

    def read(self, site: Site, person: Person, asked: Filter) -> Trials:
        """Returns the trainings of a list that a user may see. Of several jobs of one run the first counts.

        Raises:
            UserError: the search cannot be read.
        """
        states = sorted(GROUPS[asked.group][1])
        where = [*wanted_jobs(asked, person), JOBS.c.verb == "train", JOBS.c.state.in_(states)]
        run_dir = JOBS.c.plan["run_dir"].as_string().label("run_dir")
        query = select(*(JOBS.c[name] for name in COLUMNS), run_dir).where(*where)
        with site.operations.ledger.database.read() as session:
            found = session.execute(query.order_by(JOBS.c.seq.desc()).limit(MOST + 1)).all()
        rows = {row.run or row.id: row for row in found[:MOST]}  # the oldest job of a run comes last
        ordered = sorted(rows.values(), key=lambda row: row.seq)
        words = [_settings(row.words) for row in ordered]
        every = {key for one in words for key in one}
        keys = sorted(key for key in every if len({one.get(key) for one in words}) > 1)
        trials = [
            Trial(
                **{"job": row.id, "name": row.run.rpartition(" ")[2].rpartition("/")[2] or row.id},
                **{"state": State(row.state), "changed": row.changed, "measures": self._measures(row)},
                **{"seconds": row.spent, "since": row.started - row.spent if row.started else None},
                settings={key: one[key] for key in keys if key in one},
            )
            for row, one in zip(ordered, words, strict=True)
        ]
        measures = sorted({name for one in trials for name in one.measures}, key=lambda name: (name != DEFAULT, name))
        return Trials(trials, keys, measures, len(found) > MOST)

    def _measures(self, row: Any) -> Measures:
        ended = row.state in ENDED
        version, known = self._ended.get(row.id, (0, {}))
        if ended and version == row.version:
            return known
        found = read_measures(Path(row.run_dir)) if row.run_dir else {}
        if ended:
            with self._lock:
                self._ended[row.id] = row.version, found
                while len(self._ended) > REMEMBERED:
                    self._ended.pop(next(iter(self._ended)))
        return found


def read_measures(run: Path) -> Measures:
    """Returns measure -> its values in the order of the steps, at most VALUES.

    Of a step that was repeated after a resume the last value counts, as in `service/curves.py`.
    """
    found: dict[str, dict[int, float]] = {}
    for line in JournalReader(run / paths.STEPS, only=MEASURED).lines():
        for name in line:
            if name.startswith(("valid_", "epoch_")) and name != "valid_items" and len(name) <= 40:
                value = finite(line[name])
                if value is not None and (name in found or len(found) < 20):
                    found.setdefault(name, {})[line["step"]] = value
    return {name: [points[step] for step in sorted(points)][:VALUES] for name, points in found.items()}


def _settings(words: Sequence[str]) -> dict[str, str]:
    """Returns the settings in a job's words; the name belongs to the run."""
    pairs = {key_of(word): word.partition("=")[2].strip("'\"") for word in words if "=" in word and word[:1] != "~"}
    return {key: value for key, value in pairs.items() if key not in ("name", "tracking.parent")}
