"""The page of the endpoint: whether it is up, what it serves, requests, latencies, refusals, what it could not keep."""

from typing import Any

from dragoman.services.jobs.pages.curves import Points, time_chart
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.service.endpoint_view import SECONDS, UNASKED, endpoint_view
from dragoman.services.jobs.service.endpoint_watch import Step, View, by_label, quantile

WORDS = {  # of the counter's label -> what people read
    "truncated": "sentences cut to the model's length",
    "unknown": "sentences with words that the model does not know",
    "loops": "sentences that repeat themselves",
    "loops_broken": "sentences that went round until the loop was broken",
    "placeholders": "placeholders, numbers, addresses",
    "tags": "tags",
    "terms": "terms of glossaries",
    "words": "unknown words that were to be copied",
}
REFUSALS = {  # the same for the reasons of refusals
    "error": "the endpoint failed",
    "invalid": "the request is wrong, or its languages are not served",
    "key": "it has no key, or the key may not do this",
    "queue_full": "too many requests wait",
    "quota": "the key's characters are used up",
    "rate": "the key asks too often",
    "slow": "the request took too long to come",
    "too_large": "the request is too large",
    "unavailable": "no model answers yet, or the endpoint is ending",
    "unknown": "there is no such route or thing",
}


def overview(site: Site) -> dict[str, Any]:
    """Returns the content of the page."""
    view = site.endpoint_watch.view()
    found = endpoint_view(view)
    return {"view": found, "charts": _charts(view), "words": WORDS, "refusals": REFUSALS, "now": site.now}


def _charts(view: View) -> list[Any]:
    lines: dict[str, dict[str, Points]] = {
        "Requests a second": {"": [(step.at, _requests(step) / step.seconds) for step in view.steps]},
        "Latency, ms": {
            f"p{part}": [
                (step.at, 1000 * value) for step in view.steps if (value := _latency(step, part / 100)) is not None
            ]
            for part in (50, 95, 99)
        },
        "Refused a second": {"": _rate(view, "dragoman_refused_total")},
        "Characters a second": {"": _rate(view, "dragoman_characters_total", direction="in")},
    }
    found = (
        time_chart(title, {name: points for name, points in own.items() if points}) for title, own in lines.items()
    )
    return [chart for chart in found if chart is not None]


def _rate(view: View, name: str, **labels: str) -> Points:
    return [(step.at, step.total(name, **labels) / step.seconds) for step in view.steps]


def _requests(step: Step) -> float:
    counts = by_label([step], f"{SECONDS}_count", "http_route")
    return sum(count for route, count in counts.items() if route not in UNASKED)


def _latency(step: Step, share: float) -> float | None:
    buckets = by_label([step], f"{SECONDS}_bucket", "http_route", "le")
    bounds: dict[str, float] = {}
    for (route, bound), count in buckets.items():
        if route not in UNASKED:
            bounds[bound] = bounds.get(bound, 0.0) + count
    return quantile(share, bounds)
