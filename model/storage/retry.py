"""Retries one request while the error may pass: with growing random pauses, within a limit."""

import errno
import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from dragoman.model.addresses import mask_address, mask_credentials
from dragoman.model.errors import ServiceError, UserError, reason

Result = TypeVar("Result")
DEADLINE = 120.0  # seconds that a request may keep failing
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds
SAID_AFTER = 5.0  # seconds of failing before the first warning
LOCAL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE)  # errors that a retry cannot fix
logger = logging.getLogger(__name__)


class NotThereError(UserError):
    """The address has no object."""


class RefusedError(UserError):
    """The credentials are missing, wrong or expired, or lack the permission."""


class ExistsError(Exception):
    """An object to be created exists already."""


class AwayError(ServiceError):
    """The server did not answer, or not correctly, until the deadline."""


class BrokenTransferError(OSError):
    """A transfer gave fewer or different bytes than expected."""


def retry(action: Callable[[], Result], address: str, deadline: float | None = None) -> Result:
    """Returns the result of `action`. Retries errors that may pass, after a pause of up to twice the last one.

    `deadline`: seconds, None: DEADLINE.

    Raises NotThereError, RefusedError, ExistsError: a retry cannot help. Raises AwayError: it failed to the deadline.
    """
    began, pause, said = time.monotonic(), FIRST_PAUSE, False
    most = DEADLINE if deadline is None else deadline
    while True:
        try:
            return action()
        except Exception as problem:
            lasting = classify_error(problem, address)
            if lasting is not None:
                raise lasting from None
            masked, why = mask_address(address), describe(problem)
        wait = random.uniform(pause / 2, pause)  # so that many that failed together do not retry together
        gone = time.monotonic() - began
        if gone + wait > most:
            raise AwayError(f"{masked}: no valid answer in {gone:.0f} s ({why})")
        if gone > SAID_AFTER and not said:
            said = True
            logger.warning(f"{masked}: no valid answer for {gone:.0f} s ({why}); trying again")
        time.sleep(wait)
        pause = min(2 * pause, LONGEST_PAUSE)


def classify_error(problem: Exception, address: str) -> Exception | None:
    """Returns the error to raise if no retry can help; None if the failure may pass."""
    masked = mask_address(address)
    if isinstance(problem, UserError | ExistsError):
        return problem
    cause = problem.__cause__ or problem
    response = getattr(cause, "response", None)  # botocore's, if any
    code = str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
    status = getattr(cause, "status", 0)
    if code in ("PreconditionFailed", "412") or isinstance(problem, FileExistsError):
        return ExistsError(masked)
    if code == "NoSuchBucket":
        return NotThereError(f"{masked}: there is no such bucket")
    if isinstance(problem, FileNotFoundError) or status in (404, 410):
        return NotThereError(f"{masked}: nothing is stored there")
    names = {kind.__name__ for kind in type(cause).__mro__}
    if (
        isinstance(problem, PermissionError)
        or status in (401, 403)
        or names & {"NoCredentialsError", "ProfileNotFound"}
    ):
        return RefusedError(
            f"{masked}: refused ({code or describe(cause)}). Credentials are taken from the environment or from the "
            f"usual files (AWS_ACCESS_KEY_ID, ~/.aws/credentials, ...); are they right, and not expired?"
        )
    if 400 <= status < 500 and status not in (408, 416, 425, 429):
        return UserError(f"{masked}: refused ({describe(cause)})")
    if isinstance(problem, OSError) and problem.errno in LOCAL_ERRORS:
        return problem
    from http.client import HTTPException  # with its parser of mails it takes 30 ms, which every command would pay

    module = type(cause).__module__.partition(".")[0]
    passing = isinstance(problem, OSError | EOFError | HTTPException)
    return None if passing or module in ("aiohttp", "aiobotocore", "botocore", "gcsfs") else problem


def describe(problem: BaseException) -> str:
    """Returns an error in one line, without the passwords and queries of addresses."""
    text = mask_credentials(reason(problem)) if isinstance(problem, Exception) else type(problem).__name__
    return " ".join(mask_address(word) if "://" in word and "?" in word else word for word in text.split(" "))
