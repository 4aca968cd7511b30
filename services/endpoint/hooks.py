"""POST /hooks/mlflow: a webhook of MLflow's registry makes the endpoint look for newer versions at once.

MLflow signs its deliveries: HMAC-SHA256 of `ID.TIME.BODY` with the webhook's secret, in the header X-MLflow-Signature.
Whatever a delivery says, it only makes the followers ask the registry themselves, so that it can name no model.
"""

import base64
import hashlib
import hmac
import time

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from services.endpoint.endpoint import Endpoint

OLDEST = 300.0  # seconds; an older delivery may be a replay


def add_hooks(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the route; without a secret it is not there."""
    secret = endpoint.hook
    if secret is None:
        return

    @app.post("/hooks/mlflow", include_in_schema=False)
    async def mlflow(request: Request) -> Response:
        check_signature(request, await request.body(), secret, time.time())
        if endpoint.models is not None:
            endpoint.models.wake()
        return Response(status_code=204)


def check_signature(request: Request, body: bytes, secret: bytes, now: float) -> None:
    """Refuses a delivery that MLflow has not signed with `secret`, or not in the last minutes.

    Raises:
        HTTPException: 403.
    """
    identity, sent, signature = (
        request.headers.get(f"X-MLflow-{name}", "") for name in ("Delivery-Id", "Timestamp", "Signature")
    )
    digest = hmac.new(secret, f"{identity}.{sent}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(digest).decode()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise HTTPException(403, "Invalid signature: the webhook's secret must be that of the file serve.hook")
    if not sent.isdecimal() or abs(now - int(sent)) > OLDEST:
        raise HTTPException(403, "Invalid signature: the delivery is too old")
