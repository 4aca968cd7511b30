"""Connects to a Ray cluster's job server, and explains failures."""

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx

from dragoman.model.errors import ServiceError, UserError

AGENT_PORT = 52365  # where `ray start` lets a node's agent listen; a head without an agent accepts no jobs


@dataclass(frozen=True)
class Head:
    """The head of a Ray cluster: the address of its dashboard, and the token."""

    address: str  # http://host:8265
    auth: Literal["token", "disabled"] = "token"
    token_file: str | None = None

    @contextlib.contextmanager
    def talking(self) -> Iterator[Any]:
        """Yields `connect`'s client for a conversation with the cluster."""
        import aiohttp

        client = self.connect()
        try:
            yield client
        except (aiohttp.ClientError, OSError, RuntimeError) as problem:
            reason = (str(problem).strip() or type(problem).__name__).splitlines()[0][:300]
            if "No available agent" in reason:
                raise ServiceError(
                    f"the cluster at {self.address} accepts no jobs: no agent of its nodes answers. A head that has "
                    f"just started may need a moment. Where another Ray holds port {AGENT_PORT} on the head's machine "
                    f"(dragoman doctor, run there, looks), start the head with --dashboard-agent-listen-port=0"
                ) from None
            raise ServiceError(
                f"the head at {self.address} has gone or failed ({reason}). Jobs go on as long as the cluster lives"
            ) from None

    def connect(self) -> Any:
        """Returns Ray's client of the cluster's job server. The token is neither shown nor logged."""
        os.environ["RAY_AUTH_MODE"] = self.auth
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        headers = self._headers()
        if self.address.startswith(("http://", "https://")):
            os.environ["RAY_API_SERVER_ADDRESS"] = self.address  # otherwise RAY_ADDRESS would win silently
        from ray.exceptions import AuthenticationError
        from ray.job_submission import JobSubmissionClient

        for name in ("ray", "ray.dashboard.modules.job.sdk"):  # the second has its own level
            logging.getLogger(name).setLevel(logging.WARNING)

        try:
            return JobSubmissionClient(self.address, headers=headers)
        except AuthenticationError as problem:
            reason = str(problem).strip().splitlines()[0]
            raise UserError(
                f"service.auth={self.auth}: the cluster at {self.address} refuses us ({reason}). Its token is expected "
                f"in the variable RAY_AUTH_TOKEN or in the file service.token_file={self.token_file}"
            ) from None
        except (ConnectionError, RuntimeError, ValueError) as problem:
            reason = str(problem).strip().splitlines()[0]
            raise UserError(f"service.address: no Ray job server answers at {self.address!r} ({reason})") from None

    def nodes(self, client: Any) -> list[Any]:
        """Returns Ray's records of the cluster's nodes."""
        from ray.util.state import StateApiClient
        from ray.util.state.common import ListApiOptions, StateResource
        from ray.util.state.exception import RayStateApiException

        headers = {"Content-Type": "application/json", **(self._headers() or {})}
        asked = StateApiClient(client.get_address(), headers=headers)
        try:
            return list(asked.list(StateResource.NODES, ListApiOptions(limit=10_000), raise_on_missing_output=True))
        except RayStateApiException as problem:
            raise ServiceError(f"the cluster at {self.address} does not say what it has ({problem})") from None

    def ask(self, client: Any, path: str) -> Any:
        """Returns the dashboard's answer to a question for which Ray's clients have no method.

        Raises:
            OSError: it does not answer, or refuses.
        """
        try:
            answer = httpx.get(f"{client.get_address()}{path}", headers=self._headers(), timeout=30)
            return answer.raise_for_status().json()
        except httpx.HTTPError as problem:
            raise OSError(str(problem)) from None

    def _headers(self) -> dict[str, str] | None:
        """Returns the header with the cluster's token: Ray reads its variables only once, when it is imported."""
        return {"Authorization": f"Bearer {self._read_token()}"} if self.auth == "token" else None

    def _read_token(self) -> str:
        """Returns the token from the place that Ray itself looks at first: the variable, the named file, Ray's own."""
        if self.token_file is not None:
            if not Path(self.token_file).is_file():
                raise UserError(f"service.token_file: {self.token_file} is not a file")
            os.environ["RAY_AUTH_TOKEN_PATH"] = self.token_file  # for an address that Ray has to look up first
        if token := os.environ.get("RAY_AUTH_TOKEN"):
            return token.strip()
        file = Path(self.token_file) if self.token_file is not None else Path.home() / ".ray" / "auth_token"
        if not file.is_file():
            raise UserError(
                "service.auth=token: there is no token. Put it into the variable RAY_AUTH_TOKEN or into a file named "
                "by service.token_file (service.auth=disabled is for clusters that ask for none)"
            )
        return file.read_text(encoding="utf-8").strip()
