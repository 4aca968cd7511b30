"""Formats jobs for the terminal."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dragoman.conf import compose, showing
from dragoman.model.columns import columns as aligned
from dragoman.model.durations import duration
from dragoman.services.jobs.states import PRIORITY_NAMES

Column = str | Callable[[Mapping[str, Any]], object]  # a key of a record, or what to show of it
NARROW, WIDE, LEAST, GAP = 10, 20, 12, 2  # letters of an owner, of a name, of a reason at least, between columns
# strftime's names follow the locale
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def table(rows: Sequence[Sequence[object]]) -> str:
    """Returns the rows as aligned columns, the first row on top."""
    return "\n".join(aligned(rows))


def of_records(records: Iterable[Mapping[str, Any]], columns: Mapping[str, Column]) -> str:
    """Returns a table with a row for each record, below the columns' names."""
    cells = (
        [row[column] if isinstance(column, str) else column(row) for column in columns.values()] for row in records
    )
    return table([list(columns), *cells])


def show(records: Sequence[Mapping[str, Any]], columns: Mapping[str, Column], *below: str, empty: str = "") -> int:
    """Prints a table and the lines `below`, or the records as JSON; `empty`: the text if there are no records."""
    showing.show(records, lambda: "\n".join([of_records(records, columns), *below]) if records or not empty else empty)
    return compose.OK


def at(key: str) -> Column:
    return lambda record: clock(record[key])


def command(record: Mapping[str, Any]) -> str:
    """Returns the command line of a job."""
    return " ".join([record["verb"], *record["words"]])


def jobs(jobs_shown: Sequence[Mapping[str, Any]], counts: Mapping[str, int], now: float) -> str:
    """Returns the text of `dragoman jobs`: the jobs, and the number in each state."""
    summary = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "no jobs"
    return f"{table(job_rows(jobs_shown, now))}\n{summary}"


def job_rows(jobs: Sequence[Mapping[str, Any]], now: float) -> list[Sequence[object]]:
    """Returns one row per job, as wide as the terminal; `!` marks a high priority, `.` a low one."""
    rows: list[list[str]] = [["JOB", "STATE", "OWNER", "NAME", "SCORE", "SINCE", "WHY"]]
    for job in jobs:
        name = job["name"] or job["model"]
        high = {"high": "!", "low": "."}.get(PRIORITY_NAMES.get(job["priority"], ""), "")
        rows.append(
            [
                job["id"],
                f"{job['state']}{high}",
                cut(job["owner"], NARROW),
                cut(f"{job['verb']} {name}".rstrip(), WIDE),
                "-" if job.get("score") is None else f"{job['score']:.4g}",
                duration(now - job["changed"]),
                job["why"] or reason_beyond(job["state"], job["reason"]),
            ]
        )
    used = sum(max(len(row[place]) for row in rows) + GAP for place in range(len(rows[0]) - 1))
    room = max(LEAST, shutil.get_terminal_size().columns - used)
    return [[*row[:-1], cut(row[-1], room)] for row in rows]


def cut(text: str, most: int) -> str:
    """Returns at most `most` letters of a text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def detail(job: Mapping[str, Any]) -> str:
    """Returns the text of `dragoman job`."""
    facts = [
        ("job", f"{job['id']}, of {job['owner']}, priority {PRIORITY_NAMES.get(job['priority'], job['priority'])}"),
        ("command", " ".join(["dragoman", job["verb"], *job["words"]])),
        ("state", ": ".join(filter(None, (job["state"], job["why"] or reason_beyond(job["state"], job["reason"]))))),
        ("ran for", duration(job["spent"] + (time.time() - job["started"] if job["started"] else 0))),
    ]
    parts = [table(facts)]
    if job.get("plan"):
        parts.append(plan(job["plan"]))
    if job["attempts"]:
        rows: list[Sequence[object]] = [("ATTEMPT", "WORKERS", "STARTED", "TOOK", "OUTCOME", "CAUSE")]
        for attempt in job["attempts"]:
            took = duration(attempt["ended"] - (attempt["started"] or attempt["decided"])) if attempt["ended"] else "-"
            outcome = (attempt["outcome"] or "runs", attempt["cause"] or "-")
            rows.append((attempt["number"], attempt["workers"], clock(attempt["started"]), took, *outcome))
        parts.append(table(rows))
    changes = []
    for change in job["changes"]:
        state = change["after"] or change["action"]
        changes.append((clock(change["at"]), change["actor"], state, reason_beyond(state, change["reason"])))
    return "\n\n".join([*parts, table([("WHEN", "BY", "STATE", "WHY"), *changes])])


def plan(planned: Mapping[str, Any]) -> str:
    kind, _, made = planned["claims"].partition(" ")  # a run, or a folder of shards
    rows = [(name, value) for name, value in ((kind, made), ("model", planned["model"])) if value]
    workers = " or ".join(map(str, planned["choices"]))
    gpus = f", {planned['gpus']:g} GPUs" if planned["gpus"] else ""
    rows.append(("workers", f"{workers}, each {planned['cpus']:g} CPUs{gpus}"))
    if planned.get("steps"):
        rows.append(("steps", f"{planned['steps']:,}, at most {planned['tokens']:,} tokens"))
        rows.append(("work", f"{planned['flops']:.3g} operations, {planned['parameters']:,} parameters"))
        rows.append(("memory", f"about {planned['memory'] / 2**20:,.0f} MiB a worker"))
    for workers, seconds in planned.get("seconds", {}).items():
        rows.append((f"time on {workers}", f"{duration(seconds)}, by the last speed seen here"))
    changed = ", ".join(f"{key}={value}" for key, value in sorted(planned["changed"].items()))
    return table([*rows, ("changed", changed or "nothing")])


def why(reasons: Mapping[str, Any]) -> str:
    """Returns the reason and the holders as text."""
    lines = [str(reasons["text"])]
    if reasons["holders"]:
        rows: list[Sequence[object]] = [("HELD BY", "OWNER", str(reasons["resource"] or "-"), "EXPECTED END")]
        rows += [
            (
                holder["job"],
                holder["owner"],
                f"{holder['amount']:g}" if holder["amount"] else "-",
                clock(holder["until"]),
            )
            for holder in reasons["holders"]
        ]
        lines.append(table(rows))
    return "\n".join(lines)


def clock(at: float | None) -> str:
    """Returns day and hour in local time: `Thu 26 Nov 16:03`; with the year if it is another, with seconds for today.

    The day is always shown: a page or a terminal may be read again tomorrow.
    """
    if at is None:
        return "-"
    moment, now = datetime.fromtimestamp(at).astimezone(), datetime.now().astimezone()
    year = f" {moment.year}" if moment.year != now.year else ""
    hour = f"{moment:%H:%M:%S}" if moment.date() == now.date() else f"{moment:%H:%M}"
    return f"{DAYS[moment.weekday()]} {moment.day} {MONTHS[moment.month - 1]}{year} {hour}"


def reason_beyond(state: str, reason: str) -> str:
    """Returns the reason without the state's own word at its beginning: empty for `succeeded` and `succeeded`."""
    return "" if reason == state else reason.removeprefix(f"{state}: ")
