"""A connection to the job service: requests, streams of events, and its problems as errors."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self

import httpx

from dragoman.model.errors import ServiceError, UserError

RETRY_TIMEOUT = 60.0  # seconds of retrying a lost connection
LARGEST = 500  # rows of a page
SILENCE = 45.0  # seconds without an event or a comment before a connection counts as lost


class NotFoundError(UserError):
    """The service has nothing of that name."""


class Connection:
    """A connection to the service at `address`.

    Every method raises UserError if the service refuses, and ServiceError if it does not answer.
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

    def _stream(self, path: str, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the events of a stream until its `end`; after a broken connection, from the last id on."""
        last: str | None = None
        deadline = time.monotonic() + RETRY_TIMEOUT
        while True:
            with contextlib.suppress(httpx.TransportError):
                headers = {"Last-Event-ID": last} if last else {}
                timeout = httpx.Timeout(10, read=SILENCE)
                with self._http.stream("GET", path, params=query, headers=headers, timeout=timeout) as answer:
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

    def _json(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask(method, path, **more).json()
        return answer

    def _rows(self, path: str, **more: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._ask("GET", path, **more).json()
        return rows

    def _pages(self, path: str, key: str, most: int | None, query: Mapping[str, Any]) -> Iterator[Any]:
        """Yields the rows under `key` of one page after the other, at most `most`."""
        cursor: dict[str, Any] = {}
        while most is None or most > 0:
            limit = LARGEST if most is None else min(most, LARGEST)
            page = self._json("GET", path, params={"limit": limit, **cursor, **query})
            yield from page[key]
            most = None if most is None else most - len(page[key])
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **more)
        except httpx.HTTPError as problem:
            reason = str(problem) or type(problem).__name__
            raise ServiceError(f"the job service at {self.address} does not answer ({reason})") from None
        self._check(answer)
        return answer

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


def path_part(name: str) -> str:
    """Returns a name of a job, an owner or a token if it is safe as a part of a path."""
    if not all(letter.isalnum() or letter in "-_.+" for letter in name) or not name.strip("."):
        raise UserError(f"{name!r}: that is no name")
    return name
