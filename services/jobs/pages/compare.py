"""Compares up to eight runs: the settings that differ, then the results, then the curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.conf import groups
from dragoman.model.errors import UserError
from dragoman.model.runs.paths import evaluations
from dragoman.model.untrusted import finite, read_object
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages.curves import charts
from dragoman.services.jobs.pages.jobpage import title
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.pages.words import number, plain, span
from dragoman.services.jobs.service.curves import run_of
from dragoman.services.jobs.states import State

MOST = 8
EVALUATIONS = 20  # files read of a run
SCORES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "perplexity": "perplexity", "nats": "nats per token"}


@dataclass(frozen=True)
class Cell:
    """A value; `given` is True if the job set it, and False for a default."""

    text: str
    given: bool = True
    best: bool = False


@dataclass(frozen=True)
class Line:
    """A row of the table, with a cell per run."""

    name: str
    cells: Sequence[Cell]


def comparison(site: Site, person: Person, names: Sequence[str]) -> dict[str, Any]:
    """Returns what the page shows.

    Raises:
        UserError: more than MOST jobs.
        UnknownJobError: a job does not exist, or this person may not see it.
    """
    names = list(dict.fromkeys(name for name in names if name))
    if len(names) > MOST:
        raise UserError(f"{len(names)} jobs: at most {MOST} are compared at once")
    jobs = [site.operations.job(person, name) for name in names]
    journals = {f"{job.id} {title(job)}": site.journals.read((job.plan or {}).get("run_dir")) for job in jobs}
    same, different = _settings(jobs)
    return {
        **{"jobs": jobs, "titles": [title(job) for job in jobs], "different": different, "same": same},
        **{"results": _results(site, jobs), "charts": charts(journals) if jobs else [], "most": MOST},
    }


def _settings(jobs: Sequence[Job]) -> tuple[list[Line], list[Line]]:
    """Returns (the settings that all jobs changed alike, those that differ), by key."""
    changed: list[Mapping[str, Any]] = [(job.plan or {}).get("changed") or {} for job in jobs]
    same: list[Line] = []
    different: list[Line] = []
    defaults = groups.written_defaults()
    for key in sorted({key for one in changed for key in one}):
        if key == "name":
            continue  # it is the column's heading
        cells = [
            Cell(plain(one[key])) if key in one else Cell(plain(defaults.get(key, "–")), given=False) for one in changed
        ]
        (same if len({cell.text for cell in cells}) == 1 else different).append(Line(key, cells))
    verbs = [Cell(job.verb) for job in jobs]
    if len({cell.text for cell in verbs}) > 1:
        different.insert(0, Line("verb", verbs))
    return same, different


def _results(site: Site, jobs: Sequence[Job]) -> list[Line]:
    """Returns the rows of state, scores, steps and time; the best value of a row is marked."""
    lasts = [site.journals.read((job.plan or {}).get("run_dir")).last for job in jobs]
    scores = [_scores(job) for job in jobs]
    rows = [Line("State", [Cell(job.state) for job in jobs])]
    for key in dict.fromkeys(key for one in scores for key in one):
        rows.append(_measured(key, [one.get(key) for one in scores], lower=not key.endswith(("BLEU", "chrF"))))
    for key, name in (("valid_loss", "Validation loss"), ("loss", "Training loss")):
        rows.append(_measured(name, [one.get(key) for one in lasts], lower=True))
    rows.append(Line("Steps", [Cell(f"{int(one['step']):,}" if one.get("step") else "–") for one in lasts]))
    rows.append(Line("Ran for", [Cell(span(_ran(site, job)) if job.attempt else "–") for job in jobs]))
    rows.append(Line("Attempts", [Cell(str(job.attempt)) for job in jobs]))
    return [row for row in rows if any(cell.text != "–" for cell in row.cells)]


def _ran(site: Site, job: Job) -> float:
    return job.spent + (site.now - job.started if job.started and job.state == State.RUNNING else 0.0)


def _measured(name: str, values: Sequence[float | None], lower: bool) -> Line:
    there = [value for value in values if value is not None]
    best = (min(there) if lower else max(there)) if len(there) > 1 and len(set(there)) > 1 else None
    return Line(
        name, [Cell("–" if one is None else number(one), best=one is not None and one == best) for one in values]
    )


def _scores(job: Job) -> dict[str, float]:
    """Returns the scores of the run's last evaluations, such as `test BLEU`."""
    run, found = run_of(job), {}
    for path in evaluations(run)[:EVALUATIONS] if run else ():
        measured = read_object(path)
        split, scores = path.name.split(".")[1], measured.get("scores")
        for key, label in SCORES.items():
            value = finite(scores.get(key)) if isinstance(scores, dict) else None
            if value is not None:
                found[f"{split} {label}"] = value
    return found
