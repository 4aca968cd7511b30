"""The access log, which never holds a user's words or keys.

It logs the route instead of the path, which may contain a word, and leaves out the query string. For an unexpected
error it logs the traceback without the message, which may quote the request.
"""

import ipaddress
import logging
import traceback
from http import HTTPMethod

from starlette.types import Scope

logger = logging.getLogger(__name__)


def log_request(scope: Scope, route: str, status: int, seconds: float) -> None:
    """Logs the line of a request; status 0: the client has left."""
    logger.info("%s %s %d %.0f ms", _client(scope), _describe(scope, route), status, 1000 * seconds)


def log_failure(scope: Scope, route: str, problem: Exception) -> None:
    """Logs an unexpected error without its message."""
    frames = "".join(traceback.format_tb(problem.__traceback__))
    logger.error("%s failed: %s\n%s", _describe(scope, route), type(problem).__name__, frames.rstrip())


def _client(scope: Scope) -> str:
    """Returns the client's IP address. Behind a local proxy it comes from a header, which anybody can write."""
    try:
        return str(ipaddress.ip_address((scope.get("client") or ("",))[0].partition("%")[0]))
    except ValueError:
        return "-"


def _describe(scope: Scope, route: str) -> str:
    """Returns method and route, as far as they are known: POST /translate, GET /vectors/{word:path}."""
    method = scope["method"] if scope["method"] in HTTPMethod.__members__ else "?"
    return f"{method} {route or '(no such route)'}"
