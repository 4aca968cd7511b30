"""The page of trials: the best one, scores over time, what they depend on, and a table with a row per trial."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.pages.compare import MOST
from dragoman.services.jobs.pages.curves import Chart
from dragoman.services.jobs.pages.export import csv_lines
from dragoman.services.jobs.pages.listing import Filter
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.pages.trial_pictures import over_time, pictures, to_number
from dragoman.services.jobs.pages.trial_shares import ShareCache
from dragoman.services.jobs.pages.trials import Trial, TrialReader, is_lower
from dragoman.services.jobs.pages.words import iso
from dragoman.services.jobs.states import ENDED, State

ROWS = 50
LATELY = 600.0  # seconds since the last end in which the page still looks for news
NAMES = {"valid_loss": "Validation loss", "valid_bleu": "Validation BLEU", "valid_perplexity": "Validation perplexity"}
COLUMNS = ("score", "trial", "state", "time")  # that a table is sorted by, beside the settings


@dataclass(frozen=True)
class Asked:
    """The requested trials and their order. `by` is the measure; `find` words of the wanted rows."""

    filter: Filter
    by: str = ""
    sort: str = "score"  # a column or a setting; - before it: the other way round
    find: str = ""
    place: int = 0  # rows before the page

    @classmethod
    def read(cls, asked: Mapping[str, str]) -> "Asked":
        """Reads it from the values of an address."""
        place = asked.get("place", "")
        return cls(
            replace(Filter.read(asked), before=None, place=0),
            asked.get("by", "")[:40],
            asked.get("sort", "score")[:200] or "score",
            asked.get("find", "").strip()[:200],
            int(place) if place.isdecimal() and len(place) < 10 else 0,
        )

    def query(self, **changed: Any) -> str:
        """Returns the address of another such page, without the path."""
        asked = {"by": self.by, "sort": self.sort, "find": self.find, "place": self.place, **changed}
        more = urlencode({key: value for key, value in asked.items() if value not in ("", 0, "score")})
        return "&".join(filter(None, [self.filter.query() or "?", more])).replace("?&", "?")


class TrialPages:
    """The content of the pages of trials; keeps what was read and computed."""

    def __init__(self, site: Site) -> None:
        self.site, self.reader, self.cache = site, TrialReader(), ShareCache()

    def page(self, person: Person, asked: Asked) -> dict[str, Any]:
        """Returns the content of the page.

        Raises:
            UserError: the search cannot be read.
        """
        found = self.reader.read(self.site, person, asked.filter)
        measure = self._measure(asked, found.measures)
        scores = {trial.job: trial.score(measure) for trial in found.rows}
        scored = [(trial, score) for trial in found.rows if (score := scores[trial.job]) is not None]
        ranked = sorted(scored, key=lambda pair: _rank(pair[0], pair[1], measure))
        best = ranked[0][0] if ranked else None
        rows = self._sorted(found.rows, scores, asked.sort, measure)
        rows = [trial for trial in rows if _fits(trial, asked.find)]
        top = best.job if best else ""
        ended = [pair for pair in scored if pair[0].state in ENDED]
        first: Chart | None = over_time(ended, measure, top)
        shares = self.cache.shares((person.owner, person.role, asked.filter, measure), ended, found.keys, measure)
        return {
            **{"asked": asked, "trials": found, "measure": measure, "names": NAMES, "scores": scores, "best": best},
            **{"shares": shares, "scored": len(ended), "lower": is_lower(measure), "title": _title(asked, found.rows)},
            "live": shares is None or any(self._moves(trial) for trial in found.rows),
            "charts": [*([first] if first else []), *pictures(ended, found.keys, measure, top)],
            "rows": rows[asked.place : asked.place + ROWS],
            **{"found": len(rows), "more": asked.place + ROWS if asked.place + ROWS < len(rows) else 0},
            "counts": {state: sum(trial.state == state for trial in found.rows) for state in State},
            "compare": _together([trial for trial, _ in ranked]),
            "pictures": self.site.tracking.run_page(asked.filter.sweep, "artifacts") if asked.filter.sweep else "",
        }

    def _moves(self, trial: Trial) -> bool:
        """Returns True if a trial has not ended, or has lately: then the next one of its sweep may come."""
        return trial.state not in ENDED or self.site.now - trial.changed < LATELY

    def as_csv(self, person: Person, asked: Asked) -> Iterator[str]:
        """Yields the wanted rows, in their order, as pieces of a CSV file.

        Raises:
            UserError: the search cannot be read.
        """
        found = self.reader.read(self.site, person, asked.filter)
        measure = self._measure(asked, found.measures)
        scores = {trial.job: trial.score(measure) for trial in found.rows}
        yield csv_lines([("job", "trial", "state", measure, *found.keys, "seconds", "changed")])
        rows = self._sorted(found.rows, scores, asked.sort, measure)
        yield csv_lines(
            [
                (
                    *(one.job, one.name, str(one.state), scores[one.job]),
                    *(one.settings.get(key, "") for key in found.keys),
                    *(round(one.ran(self.site.now), 1), iso(one.changed)),
                )
                for one in rows
                if _fits(one, asked.find)
            ]
        )

    def _measure(self, asked: Asked, seen: Sequence[str]) -> str:
        """Returns the measure that is asked for, else the one that the sweep names, else the usual one."""
        wanted = [asked.by, self.site.tracking.measure(asked.filter.sweep) if asked.filter.sweep else ""]
        return next((one for one in wanted if one in seen), seen[0] if seen else "valid_loss")

    def _sorted(
        self, trials: Sequence[Trial], scores: Mapping[str, float | None], sort: str, measure: str
    ) -> list[Trial]:
        """Returns the trials in the wanted order; those without the value come last."""
        column, backwards = sort.lstrip("-"), sort.startswith("-")

        def value(trial: Trial) -> tuple[Any, ...] | None:
            if column == "score":
                score = scores[trial.job]
                return None if score is None else _rank(trial, score, measure)
            if column in COLUMNS:
                return ({"trial": trial.name, "state": trial.state, "time": trial.ran(self.site.now)}[column],)
            text = trial.settings.get(column)
            found = to_number(text) if text is not None else None
            return None if text is None else (0, found, "") if found is not None else (1, 0.0, text)

        keyed = [(value(trial), trial) for trial in trials]
        there = [(key, trial) for key, trial in keyed if key is not None]
        there.sort(key=lambda pair: pair[0], reverse=backwards)
        return [trial for _, trial in there] + [trial for key, trial in keyed if key is None]


def _rank(trial: Trial, score: float, measure: str) -> tuple[bool, float]:
    """Returns the order of scores: those of complete trials first, as the sweep ranks them."""
    return trial.state != State.SUCCEEDED, score if is_lower(measure) else -score


def _fits(trial: Trial, find: str) -> bool:
    """Returns True if the row of a trial holds every word."""
    if not find:
        return True
    row = " ".join([trial.name, trial.job, trial.state, *(f"{key}={value}" for key, value in trial.settings.items())])
    return all(word in row.lower() for word in find.lower().split())


def _together(ranked: Sequence[Trial]) -> str:
    """Returns the address of the comparison of the best ones; empty for fewer than two."""
    jobs = [("job", trial.job) for trial in ranked[:MOST]]
    return f"/compare?{urlencode(jobs)}" if len(jobs) > 1 else ""


def _title(asked: Asked, trials: Sequence[Trial]) -> str:
    """Returns the sweep's name, which begins those of its trials; else the search."""
    names = {trial.name.rpartition("-")[0] for trial in trials}
    return names.pop() if len(names) == 1 and "" not in names else asked.filter.text or "Trials"
