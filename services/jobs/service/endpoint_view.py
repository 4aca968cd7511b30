"""Sums up what the watch over the endpoint has seen."""

from dragoman.services.jobs.service.endpoint_watch import View, by_label, quantile
from dragoman.services.jobs.service.schemas import EndpointView, RouteRequests, ServedModel

SECONDS = "http_server_request_duration_seconds"
UNASKED = {"/metrics", "/status", "/health"}  # routes for those who look after it
LOST = ("dragoman_lost_sentences_total", "dragoman_not_kept_total")


def endpoint_view(view: View) -> EndpointView:
    """Returns the sums of the last hour."""
    up = view.answered is not None and not view.trouble
    said = str(view.status.get("status", "ok"))
    models = [dict(labels) for name, labels in view.values if name == "dragoman_model_info"]
    return EndpointView(
        address=view.address,
        state="none" if not view.address else "away" if not up else "up" if said == "ok" else said,
        trouble=view.trouble or str(view.status.get("reload_error") or ""),
        answered=view.answered,
        seconds=max((step.at for step in view.steps), default=0.0)
        - min((step.at - step.seconds for step in view.steps), default=0.0),
        instances=view.instances,
        models=[ServedModel(**{key: one[key] for key in ServedModel.model_fields}) for one in models],
        requests=_requests(view),
        refused=_counts(view, "dragoman_refused_total", "reason"),
        not_kept={what: number for name in LOST for what, number in _counts(view, name, "what").items()},
        characters=_counts(view, "dragoman_characters_total", "direction"),
    )


def _counts(view: View, name: str, label: str) -> dict[str, float]:
    """Returns value of the label -> what was counted in the last hour; also zeros, which say that nothing was."""
    grown = by_label(view.steps, name, label)
    known = {dict(labels)[label] for sample, labels in view.values if sample == name}
    return {value: grown.get(value, 0.0) for value in sorted(known | grown.keys())}


def _requests(view: View) -> list[RouteRequests]:
    statuses = by_label(view.steps, f"{SECONDS}_count", "http_route", "http_response_status_code")
    buckets = by_label(view.steps, f"{SECONDS}_bucket", "http_route", "le")
    found = []
    for route in sorted({route for route, _ in statuses} - UNASKED):
        own = {status: count for (one, status), count in sorted(statuses.items()) if one == route}
        bounds = {bound: count for (one, bound), count in buckets.items() if one == route}
        times = {f"p{part}": quantile(part / 100, bounds) for part in (50, 95, 99)}
        found.append(RouteRequests(route=route, count=sum(own.values()), statuses=own, **times))
    return sorted(found, key=lambda one: -one.count)
