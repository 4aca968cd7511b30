"""The few Kubernetes API requests that an executor needs: custom objects are made, read and deleted.

Inside a cluster, address, token and authority are at Kubernetes' usual places in every pod. The token is read for each
request, because it is replaced while the pod lives.
"""

import os
import ssl
from pathlib import Path
from typing import Any

import httpx

from dragoman.model.errors import ServiceError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PATIENCE = 10.0  # seconds for an answer
EXISTS, MISSING = 409, 404


class Kubernetes:
    """An API server."""

    def __init__(self, server: str | None, token_file: str | None, authority: str | None) -> None:
        """Missing arguments are read from the pod's environment."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if server is None and host is None:
            raise ServiceError("service.kueue.server: this is no pod of a cluster; say where its API server is")
        self.token_file = Path(token_file) if token_file else ACCOUNT / "token"
        known = authority or str(ACCOUNT / "ca.crt")
        verify: ssl.SSLContext | bool = True
        if Path(known).exists():
            verify = ssl.create_default_context(cafile=known)
        elif authority is not None:
            raise ServiceError(f"service.kueue.authority: {authority} is not a file")
        self._http = httpx.Client(base_url=server or f"https://{host}:{port}", timeout=PATIENCE, verify=verify)

    def create(self, path: str, body: dict[str, Any]) -> bool:
        """Makes an object; returns False if one of that name exists."""
        return self._ask("POST", path, (EXISTS,), json=body).status_code != EXISTS

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """Returns an object or a list; None if it does not exist."""
        answer = self._ask("GET", path, (MISSING,), params=query)
        found: dict[str, Any] | None = None if answer.status_code == MISSING else answer.json()
        return found

    def delete(self, path: str) -> None:
        """Deletes an object with its dependents; a missing one is no error."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self._ask("DELETE", path, (MISSING,), json=body)

    def _ask(self, method: str, path: str, allowed: tuple[int, ...], **more: Any) -> httpx.Response:
        headers = {}
        if self.token_file.exists():
            headers["Authorization"] = f"Bearer {self.token_file.read_text(encoding='utf-8').strip()}"
        try:
            answer = self._http.request(method, path, headers=headers, **more)
        except httpx.HTTPError as problem:
            reason = str(problem) or type(problem).__name__
            raise ServiceError(f"the Kubernetes API does not answer ({reason})") from None
        if answer.is_success or answer.status_code in allowed:
            return answer
        try:
            message = str(answer.json()["message"])
        except (ValueError, KeyError, TypeError):
            message = f"HTTP {answer.status_code}"
        raise ServiceError(f"the Kubernetes API refuses {method} {path}: {message[:300]}")
