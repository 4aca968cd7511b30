"""A job on one HTML page that works without a network: state, curves, attempts, changed settings, lineage, end of log.

No script; curves are SVG of at most 1,000 points. Everything that somebody else has written is escaped.
"""

import time
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from services.jobs.ledger.tables import Attempt, Change, Job
from services.jobs.records import attempt_of
from services.jobs.service.curves import Point, read_curves, read_json, run_of

LOG_END = 20_000  # bytes
WIDTH, HEIGHT, LEFT, BOTTOM = 720, 220, 64, 28
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid #ddd}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .75rem .25rem 0;vertical-align:top}
th{font-weight:600;color:#555}td{border-top:1px solid #eee;overflow-wrap:anywhere}
pre{background:#f6f6f6;padding:1rem;overflow:auto;font-size:13px;max-height:30rem}
.state{display:inline-block;padding:.1rem .6rem;border-radius:1rem;background:#eee}
.succeeded{background:#d7f0dc}.failed,.lost{background:#f7d9d6}.running{background:#d9e6f7}
svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#555}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}pre{background:#222}td{border-color:#333}
.state{color:#111}h2{border-color:#444}th,text{color:#aaa;fill:#aaa}}
"""
CURVES = {"loss": "training loss (nats a token)", "valid_loss": "validation loss", "lr": "learning rate"}
ATTEMPT = ("", "workers", "started", "took", "outcome", "why", "lost")
Rows = Iterable[Sequence[Any]]


def report(job: Job, attempts: Sequence[Attempt], changes: Sequence[Change], home: Path) -> str:
    """The page."""
    plan = job.plan or {}
    run_dir = run_of(job)
    return "".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Job {escape(job.id)}</title>',
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>',
            f"<h1>{escape(job.verb)} {escape(str(plan.get('run', '')))}</h1>",
            f'<p><span class="state {escape(job.state)}">{escape(job.state)}</span> {escape(job.reason)}</p>',
            _table((), _facts(job, plan)),
            _section("Curves", _curves(run_dir)),
            _section(
                "Attempts",
                _table(ATTEMPT, map(_attempt, attempts)),
            ),
            _section("Changed settings", _table(("key", "value"), sorted((plan.get("changed") or {}).items()))),
            _section("Lineage", _table((), _lineage(run_dir, plan))),
            _section("What happened", _table(("when", "by", "state", "why"), map(_change, changes))),
            _section("End of the log", _log(job, home)),
            "</body></html>",
        ]
    )


def _facts(job: Job, plan: dict[str, Any]) -> Rows:
    yield "job", f"{job.id}, of {job.owner}"
    yield "command", " ".join(["dragoman", job.verb, *job.words])
    yield "submitted", _when(job.submitted)
    yield "ran for", _span(job.spent)
    if plan.get("steps"):
        yield "work", f"{plan['steps']:,} steps, {plan['tokens']:,} tokens, {plan['flops']:.3g} operations"
        yield "network", f"{plan['parameters']:,} parameters, about {plan['memory'] / 2**20:,.0f} MiB a worker"
    for workers, found in (plan.get("seconds") or {}).items():
        span = f"{_span(found['low'])} to {_span(found['high'])}, from {found['basis']}"
        yield f"expected on {workers}", f"{_span(found['expected'])} ({span})"


def _attempt(one: Attempt) -> Sequence[Any]:
    took = _span(one.ended - (one.started or one.decided)) if one.ended else "-"
    lost = f"{one.lost_tokens:,} tokens, {_span(one.lost_seconds)}" if one.lost_tokens else ""
    why = f"{one.cause or ''}: {one.message}" if one.message else ""
    return one.number, one.workers, _when(one.started), took, one.outcome or "runs", why, lost


def _change(one: Change) -> Sequence[Any]:
    return (
        _when(one.at),
        one.actor,
        one.after if one.action == "state" else f"{one.action} {one.after or ''}",
        one.reason,
    )


def _lineage(run_dir: Path | None, plan: dict[str, Any]) -> Rows:
    yield "configuration", f"sha256 {plan.get('fingerprint', '-')}"
    for name, keys in (("run.json", ("shards", "seed")), ("release.json", ("run", "version", "bleu", "perplexity"))):
        found = read_json(run_dir / name) if run_dir else {}
        for key in keys:
            if found.get(key) is not None:
                yield f"{name} {key}", found[key]


def _log(job: Job, home: Path) -> str:
    path = attempt_of(home, job.id, job.attempt).log
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_END))
            return f"<pre>{escape(file.read().decode('utf-8', 'replace'))}</pre>"
    except OSError:
        return ""


def _curves(run_dir: Path | None) -> str:
    found = read_curves(run_dir)
    return "".join(_curve(words, found.get(key, ())) for key, words in CURVES.items())


def _curve(words: str, points: Sequence[Point]) -> str:
    if len(points) < 2:
        return ""
    steps, values = zip(*points, strict=True)
    low, high = min(values), max(values)
    span, length = high - low or 1.0, steps[-1] - steps[0] or 1
    place = " ".join(
        f"{LEFT + (x - steps[0]) / length * (WIDTH - LEFT - 8):.1f},{8 + (high - y) / span * (HEIGHT - BOTTOM - 8):.1f}"
        for x, y in points
    )
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words)}: from {values[0]:.4g} to '
        f'{values[-1]:.4g}"><path d="M{LEFT} 8V{HEIGHT - BOTTOM}H{WIDTH - 8}" fill="none" stroke="#999"/>'
        f'<polyline points="{place}" fill="none" stroke="#2b6cb0" stroke-width="1.5"/>'
        f'<text x="4" y="16">{high:.4g}</text><text x="4" y="{HEIGHT - BOTTOM}">{low:.4g}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 8}">step {steps[0]:,}</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end">{steps[-1]:,}</text></svg>'
        f"<figcaption>{escape(words)}</figcaption></figure>"
    )


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}" if body else ""


def _table(head: Sequence[str], rows: Rows) -> str:
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    above = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>" if head else ""
    return f"<table>{above}{body}</table>" if body else ""


def _when(at: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else "-"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
