"""A job on one HTML page that works without a network: state, curves, attempts, changed settings, lineage, end of log.

There is no script; curves are SVG of at most 1,000 points. All text that others have written is escaped.
"""

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from model.durations import duration
from model.runs.paths import RECORD, RELEASE
from model.text.excerpt import for_markup
from model.untrusted import open_regular, read_object
from services.jobs.client.table import clock, reason_beyond
from services.jobs.ledger.tables import Attempt, Job
from services.jobs.records import attempt_of
from services.jobs.service.curves import Point, read_curves, run_of
from services.jobs.service.logs import clean
from services.jobs.service.schemas import ChangeView

LOG_END = 20_000  # bytes
WIDTH, HEIGHT = 600, 180  # of a curve, in units of its own
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .4rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid #ddd}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem 1rem .25rem 0;vertical-align:top}
th{font-weight:600;color:#555}tbody th{font-weight:400;white-space:nowrap;width:9rem}
td,tbody th{border-top:1px solid #eee}td{overflow-wrap:anywhere}td.short{white-space:nowrap}
pre{background:#f6f6f6;padding:1rem;overflow:auto;font-size:13px;max-height:30rem;white-space:pre-wrap}
.state{display:inline-block;padding:.1rem .6rem;border-radius:1rem;background:#eee}
.succeeded{background:#d7f0dc}.failed,.lost{background:#f7d9d6}.running{background:#d9e6f7}
.curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1.5rem}
figure{margin:0;display:grid;grid-template-columns:auto 1fr;font-size:12px;color:#555}
figcaption{grid-column:1/3;font-size:15px;color:#1a1a1a;margin-bottom:.3rem}
.y{display:flex;flex-direction:column;justify-content:space-between;text-align:right;padding-right:.5rem}
.x{grid-column:2;display:flex;justify-content:space-between}
svg{width:100%;height:11rem;border-left:1px solid #999;border-bottom:1px solid #999}
polyline{fill:none;stroke:#2b6cb0;stroke-width:1.5;vector-effect:non-scaling-stroke}
@media(max-width:40rem){body{margin:1rem auto}thead{display:none}
tr{display:block;padding:.4rem 0;border-top:1px solid #eee}
td,tbody th{display:block;border:0;padding:0;width:auto}td.short{white-space:normal}
td[data-name]{display:flex}td:empty{display:none}
td[data-name]::before{content:attr(data-name);flex:0 0 5.5rem;color:#555}}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}pre{background:#222}h2{border-color:#444}
td,tbody th,tr{border-color:#333}th,figure,td[data-name]::before{color:#aaa}figcaption{color:#e6e6e6}.state{color:#111}
polyline{stroke:#7fb2ea}}
"""
CURVES = {"loss": "training loss (nats per token)", "valid_loss": "validation loss", "lr": "learning rate"}
ATTEMPT = ("attempt", "workers", "started", "took", "outcome", "why", "lost")
SHORT = frozenset({"attempt", "workers", "started", "took", "outcome", "when", "by", "state"})  # not to be broken
Rows = Iterable[Sequence[Any]]


def report(job: Job, attempts: Sequence[Attempt], changes: Sequence[ChangeView], home: Path) -> str:
    """Returns the page."""
    plan = job.plan or {}
    run_dir = run_of(job)
    page = "".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Job {escape(job.id)}</title>',
            '<meta name="color-scheme" content="light dark">',
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head><body>',
            f"<h1>{escape(job.verb)} {escape(str(plan.get('run', '')))}</h1>",
            f'<p><span class="state {escape(job.state)}">{escape(job.state)}</span> '
            f"{escape(reason_beyond(job.state, job.reason))}</p>",
            _facts_table(_facts(job, plan)),
            _section("Curves", _curves(run_dir)),
            _section("Attempts", _table(ATTEMPT, map(_attempt, attempts))),
            _section("Changed settings", _facts_table(sorted((plan.get("changed") or {}).items()))),
            _section("Lineage", _facts_table(_lineage(run_dir, plan))),
            _section("What happened", _table(("when", "by", "state", "why"), map(_change, changes))),
            _section("End of the log", _log(job, home)),
            "</body></html>",
        ]
    )
    return for_markup(page)


def _facts(job: Job, plan: dict[str, Any]) -> Rows:
    yield "job", f"{job.id}, of {job.owner}"
    yield "command", " ".join(["dragoman", job.verb, *job.words])
    yield "submitted", clock(job.submitted)
    yield "ran for", duration(job.spent)
    if plan.get("steps"):
        yield "work", f"{plan['steps']:,} steps, {plan['tokens']:,} tokens, {plan['flops']:.3g} operations"
        yield "network", f"{plan['parameters']:,} parameters, about {plan['memory'] / 2**20:,.0f} MiB a worker"
    for workers, found in (plan.get("seconds") or {}).items():
        span = f"{duration(found['low'])} to {duration(found['high'])}, from {found['basis']}"
        yield f"on {workers} worker{'s' * (workers != '1')}", f"{duration(found['expected'])} expected ({span})"


def _attempt(one: Attempt) -> Sequence[Any]:
    took = duration(one.ended - (one.started or one.decided)) if one.ended else "-"
    lost = f"{one.lost_tokens:,} tokens, {duration(one.lost_seconds)}" if one.lost_tokens else ""
    if one.startup and one.outcome not in (None, "succeeded"):
        lost = "; ".join([*([lost] if lost else []), f"start-up of {duration(one.startup)}"])
    message = reason_beyond(one.outcome or "", one.message)
    why = f"{one.cause or ''}: {message}" if message else ""
    return one.number, one.workers, clock(one.started), took, one.outcome or "runs", why, lost


def _change(one: ChangeView) -> Sequence[Any]:
    return (
        clock(one.at),
        one.actor,
        one.after if one.action == "state" else f"{one.action} {one.after or ''}",
        reason_beyond(one.after or one.action, one.reason),
    )


def _lineage(run_dir: Path | None, plan: dict[str, Any]) -> Rows:
    yield "submission", f"sha256 {plan.get('fingerprint', '-')}"
    begun, released = (read_object(run_dir / name) if run_dir else {} for name in (RECORD, RELEASE))
    version = released.get("version")
    told = {
        "shards": begun.get("shards") and f"manifest {begun['shards']}",
        "seed": begun.get("seed"),
        "MLflow run": released.get("run_id"),
        "model version": version and f"{released.get('model')} {version}",
        "score": released.get("bleu") or released.get("scores"),
    }
    yield from ((name, value) for name, value in told.items() if value is not None)


def _log(job: Job, home: Path) -> str:
    path = attempt_of(home, job.id, job.attempt).log
    try:
        with open_regular(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_END))
            return f"<pre>{escape(clean(file.read(LOG_END).decode('utf-8', 'replace')))}</pre>"
    except OSError:
        return ""


def _curves(run_dir: Path | None) -> str:
    found = read_curves(run_dir)
    drawn = "".join(_curve(words, found.get(key, ())) for key, words in CURVES.items())
    return f'<div class="curves">{drawn}</div>' if drawn else ""


def _curve(words: str, points: Sequence[Point]) -> str:
    """Draws a curve in its own units, stretched; its labels are text beside it, of one size everywhere."""
    if len(points) < 2:
        return ""
    steps, values = zip(*points, strict=True)
    low, high = min(values), max(values)
    span, length = high - low or 1.0, steps[-1] - steps[0] or 1
    place = " ".join(
        f"{(x - steps[0]) / length * WIDTH:.1f},{2 + (high - y) / span * (HEIGHT - 4):.1f}" for x, y in points
    )
    return (
        f'<figure><figcaption>{escape(words)}</figcaption><div class="y"><span>{high:.4g}</span><span>{low:.4g}</span>'
        f'</div><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(words)}: '
        f'from {values[0]:.4g} to {values[-1]:.4g}"><polyline points="{place}"/></svg>'
        f'<div class="x"><span>step {steps[0]:,}</span><span>{steps[-1]:,}</span></div></figure>'
    )


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}" if body else ""


def _table(head: Sequence[str], rows: Rows) -> str:
    """Returns a table with a row per thing; on a narrow screen each cell is a line with its name."""
    body = "".join(
        f"<tr>{''.join(_cell(name, cell) for name, cell in zip(head, row, strict=True))}</tr>" for row in rows
    )
    above = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    return f"<table><thead><tr>{above}</tr></thead><tbody>{body}</tbody></table>" if body else ""


def _cell(name: str, cell: object) -> str:
    short = ' class="short"' if name in SHORT else ""
    return f'<td{short} data-name="{escape(name)}">{escape(str(cell))}</td>'


def _facts_table(rows: Rows) -> str:
    """Returns a table of names and values."""
    body = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(_plain(value))}</td></tr>' for name, value in rows
    )
    return f"<table><tbody>{body}</tbody></table>" if body else ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
