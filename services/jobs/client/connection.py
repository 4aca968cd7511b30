"""A connection to the job service: requests, streams of events, and its problems as errors."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

import httpx

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.routes import ROUTES

RETRY_TIMEOUT = 60.0  # seconds of retrying a lost connection
LARGEST = 500  # rows of a page
PLANNING = 180.0  # seconds for a plan
SILENCE = 45.0  # seconds without an event or a comment before a connection counts as lost


class NotFoundError(UserError):
    """The service has nothing of that name."""


class Connection:
    """A connection to the service at `address`, which asks by the names of `routes.py`.

    `body` is sent as JSON, `query` with the address; `parts` stand in the path. Every method raises UserError if the
    service refuses, and ServiceError if it does not answer.
    """

    def __init__(self, address: str, token: str | None = None, owner: str | None = None, timeout: float = 60.0) -> None:
        """`owner` is the user's name for a service without tokens."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if owner:
            headers["X-Dragoman-Owner"] = owner
        self.address = address
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def call(self, name: str, /, body: Any = None, query: Mapping[str, Any] | None = None, **parts: str) -> Any:
        """Returns the answer as plain values; None if it is empty."""
        answer = self.ask(name, body, query, **parts)
        return answer.json() if answer.content else None

    def ask(
        self, name: str, /, body: Any = None, query: Mapping[str, Any] | None = None, **parts: str
    ) -> httpx.Response:
        """Returns the answer."""
        method, path = ROUTES[name].method, _path(name, parts)
        content: dict[str, Any] = {"json": body or {}} if method in ("POST", "PUT") else {}
        if name == "plan":
            content["timeout"] = PLANNING
        try:
            answer = self._http.request(method, path, params=_given(query), **content)
        except httpx.HTTPError as problem:
            reason = str(problem) or type(problem).__name__
            raise ServiceError(f"the job service at {self.address} does not answer ({reason})") from None
        self._check(answer)
        return answer

    def stream(self, name: str, query: Mapping[str, Any], /, **parts: str) -> Iterator[dict[str, Any]]:
        """Yields the events of a stream until its `end`; after a broken connection, from the last id on."""
        path, params = _path(name, parts), _given(query)
        last: str | None = None
        deadline = time.monotonic() + RETRY_TIMEOUT
        while True:
            with contextlib.suppress(httpx.TransportError):
                headers = {"Last-Event-ID": last} if last else {}
                timeout = httpx.Timeout(10, read=SILENCE)
                with self._http.stream("GET", path, params=params, headers=headers, timeout=timeout) as answer:
                    if answer.status_code != 200:
                        answer.read()
                        self._check(answer)
                    fields: dict[str, str] = {}
                    for line in answer.iter_lines():
                        if line:
                            key, _, value = line.partition(": ")
                            fields[key] = value
                            continue
                        if fields.get("event") == "end":
                            return
                        if "data" in fields:
                            last = fields.get("id", last)
                            deadline = time.monotonic() + RETRY_TIMEOUT
                            yield json.loads(fields["data"])
                        fields = {}
            if time.monotonic() > deadline:
                raise ServiceError(f"the job service at {self.address} has gone; the same command goes on later")
            time.sleep(0.5)

    def _check(self, answer: httpx.Response) -> None:
        if answer.status_code < 400:
            return
        try:
            message = str(answer.json()["error"])
        except (ValueError, KeyError, TypeError):
            message = f"HTTP {answer.status_code}"
        if answer.status_code >= 500 or answer.status_code == 429:
            raise ServiceError(f"the job service at {self.address}: {message}")
        raise (NotFoundError if answer.status_code == 404 else UserError)(message)


def _given(query: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the values of a query that are not None."""
    return {key: value for key, value in (query or {}).items() if value is not None}


def _path(name: str, parts: Mapping[str, str]) -> str:
    """Returns the path of a route with names of a job, an owner or a token that are safe as parts of it."""
    for part in parts.values():
        if not all(letter.isalnum() or letter in "-_.+" for letter in part) or not part.strip("."):
            raise UserError(f"{part!r}: that is no name")
    return ROUTES[name].path.format(**parts)
