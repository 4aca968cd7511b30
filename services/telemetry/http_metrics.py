"""The HTTP metrics of requests that are answered in front of FastAPI."""

from collections import Counter
from collections.abc import Iterable

from opentelemetry.metrics import CallbackOptions, Observation
from starlette.types import Scope

from dragoman.services.telemetry.telemetry import MEASURED, Telemetry

HTTP_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)  # as FastAPI's


class HttpMetrics:
    """FastAPI's HTTP metrics for requests that do not come to it, under the same names.

    The gauge of requests at work has the route too: two meters may not have a sample of the same labels.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        meter = telemetry.lean_meters.get_meter("dragoman")
        self._seconds = meter.create_histogram(
            "http.server.request.duration",
            unit="s",
            description="Duration of HTTP server requests.",
            explicit_bucket_boundaries_advisory=HTTP_SECONDS,
        )
        meter.create_observable_up_down_counter(
            "http.server.active_requests",
            callbacks=[self._observe],
            unit="{request}",
            description="Number of active HTTP server requests.",
        )
        self._active: Counter[tuple[str, str]] = Counter()

    def begin(self, scope: Scope, route: str) -> None:
        """Counts a request, and keeps FastAPI from measuring it too."""
        scope[MEASURED] = True
        self._active[scope["scheme"], route] += 1

    def end(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        """Records a request that has ended; status 0: its client has left."""
        self._active[scope["scheme"], route] -= 1
        attributes: dict[str, str | int] = {
            "url.scheme": scope["scheme"],
            "http.request.method": scope["method"],
            "network.protocol.version": scope["http_version"],
            "http.route": route,
        }
        if status:
            attributes["http.response.status_code"] = status
        if status >= 500:
            attributes["error.type"] = str(status)
        elif not status:
            attributes["error.type"] = "ConnectionError"
        self._seconds.record(seconds, attributes)

    def _observe(self, _options: CallbackOptions) -> Iterable[Observation]:
        for (scheme, route), number in self._active.items():
            yield Observation(number, {"url.scheme": scheme, "http.request.method": "POST", "http.route": route})
