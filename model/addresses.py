"""Addresses as they may be shown: without the users, passwords and tokens that they can hold."""

import os
import re
from urllib.parse import unquote, urlsplit

_CREDENTIALS = re.compile(r"//[^/\s]*@")


def mask_credentials(text: str) -> str:
    """`text`, an address or a message, with *** for the user and password of every address in it."""
    return _CREDENTIALS.sub("//***@", text)


def mask_address(uri: str) -> str:
    """`uri` without user, password and query, fit for logs and files."""
    return (
        uri if uri.startswith("sqlite:") else mask_credentials(urlsplit(uri)._replace(query="", fragment="").geturl())
    )


def mask_secrets(text: str, uri: str) -> str:
    """`text` (an error's message) with the secrets of the address `uri` and of MLflow replaced, wherever they stand."""
    text = text.replace(uri, mask_address(uri))
    secrets = (urlsplit(uri).password, *map(os.environ.get, ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")))
    for secret in filter(None, secrets):
        text = text.replace(secret, "***").replace(unquote(secret), "***")
    return mask_credentials(text)
