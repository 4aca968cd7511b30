"""A request that is admitted: its parameters, and the key that it has. The one place that finds out who asks."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope

from dragoman.services.endpoint.keys import NOBODY, Key, Keys
from dragoman.services.endpoint.requests import parameters
from dragoman.services.http.wrapper import HEADERS, Admit

SCHEMES = ("deepl-auth-key", "bearer")  # of the header Authorization: DeepL's; OpenAI's, Google's, MLflow's
FIELDS = ("api_key", "apiKey", "auth_key", "key")  # LibreTranslate's, two ways; DeepL's old one; Google's


class Call(Request):
    """A request of a handler that needs a key where keys are set."""

    parameters: dict[str, Any]  # of body and query string, without those that are null
    key: Key = NOBODY

    async def read(self) -> None:
        """Reads the parameters. Raises HTTPException: 400, the body cannot be read."""
        self.parameters = {name: value for name, value in (await parameters(self)).items() if value is not None}

    def given_key(self) -> str:
        """Returns the key in the headers, the body or the query string; empty if there is none."""
        headers: dict[bytes, bytes] = self.scope[HEADERS]
        scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").strip().partition(" ")
        if scheme.lower() in SCHEMES and key.strip():
            return key.strip()
        header = headers.get(b"x-goog-api-key", b"").decode("latin-1")
        for name in FIELDS if not header else ():
            if value := self.parameters.get(name):
                return str(value)
        return header


class FileCall(Call):
    """A form with a file."""

    name: str = ""  # of the file; empty: there is none
    content: bytes = b""

    async def read(self) -> None:
        try:
            async with self.form(max_files=1, max_fields=20) as form:
                file = form.get("file")
                self.parameters = {name: value for name, value in form.items() if isinstance(value, str)}
                if isinstance(file, UploadFile):
                    self.name, self.content = file.filename or "", await file.read()
        except ValueError:
            raise HTTPException(400, "Invalid request: the body is not a form") from None


class Keyed(Protocol):
    """Gives the keys that are needed now."""

    keys: Keys


async def admit(kind: type[Call], endpoint: Keyed, scope: Scope, receive: Receive) -> Call:
    """Returns the request with its parameters and its key.

    Raises:
        HTTPException: 400, the body cannot be read.
        KeyRefusedError: the key is missing or wrong, and the server needs one.
    """
    call = kind(scope, receive)
    await call.read()
    client = scope.get("client")
    call.key = endpoint.keys.admit(call.given_key(), client[0] if client else "")
    return call


def admissions(endpoint: Keyed) -> Mapping[type[Request], Admit]:
    """Returns how each kind of call is admitted."""
    return {kind: partial(admit, kind, endpoint) for kind in (Call, FileCall)}
