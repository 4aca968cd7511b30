"""POST /hooks/mlflow: a webhook of MLflow's registry makes the endpoint look for newer versions at once.

MLflow signs its deliveries: HMAC-SHA256 of `ID.TIME.BODY` with the webhook's secret, in the header X-MLflow-Signature.
Whatever a delivery says, it only makes the followers ask the registry themselves, so that it can name no model.

The endpoint makes the webhook itself where `serve.hook_url` says how MLflow reaches it. Until that has worked, and
where MLflow refuses it or a delivery is lost, the followers' polling finds the new version.
"""

import base64
import hashlib
import hmac
import logging
import re
import threading
import time
from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError, reason
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.models.registry import Registry

OLDEST = 300.0  # seconds; an older delivery may be a replay
PATH = "/hooks/mlflow"
EVENT = "model_version_alias.created"  # MLflow's name: an alias was set, or moved
PAUSES = (2.0, 300.0)  # seconds between two tries to make the webhook: first, longest
logger = logging.getLogger(__name__)


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the route; without a secret it is not there."""
    secret = endpoint.hook
    if secret is None:
        return

    @app.post(PATH, include_in_schema=False)
    async def mlflow(request: Request) -> Response:
        check_signature(request, await request.body(), secret, time.time())
        if endpoint.models is not None:
            endpoint.models.wake()
        return Response(status_code=204)


def check_signature(request: Request, body: bytes, secret: bytes, now: float) -> None:
    """Refuses a delivery that MLflow has not signed with `secret`, or not in the last minutes.

    Raises HTTPException: 403.
    """
    identity, sent, signature = (
        request.headers.get(f"X-MLflow-{name}", "") for name in ("Delivery-Id", "Timestamp", "Signature")
    )
    digest = hmac.new(secret, f"{identity}.{sent}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(digest).decode()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise HTTPException(403, "Invalid signature: the webhook's secret must be that of the file serve.hook")
    if not re.fullmatch("[0-9]{1,15}", sent) or abs(now - int(sent)) > OLDEST:
        raise HTTPException(403, "Invalid signature: the delivery is too old")


class Registration:
    """The thread that makes the webhook as soon as MLflow can be asked; then it calls `done`."""

    def __init__(self, registry: Registry, url: str, secret: str, done: Callable[[], None] = lambda: None) -> None:
        self._registry, self._url, self._secret, self._done = registry, url, secret, done
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; a question to MLflow in progress ends with the process."""
        self._stop.set()

    def _run(self) -> None:
        pause, said = PAUSES[0], ""
        while not self._stop.is_set():
            try:
                self._registry.tell(self._url, EVENT, self._secret)
            except Exception as problem:  # whatever MLflow raises, polling goes on
                trouble = str(problem) if isinstance(problem, UserError) else reason(problem)
                if trouble != said:
                    logger.warning("serve.hook_url: no webhook yet: %s; new versions are found by polling", trouble)
                said = trouble
                self._stop.wait(pause)
                pause = min(2 * pause, PAUSES[1])
            else:
                logger.info("MLflow tells %s of new versions", self._url)
                self._done()  # an alias may have moved before
                return
