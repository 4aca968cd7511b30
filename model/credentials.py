"""Addresses and messages without the credentials in them, fit for logs and files."""

import os
import re
from urllib.parse import unquote, urlsplit


def masked(uri: str) -> str:
    """`uri` without user, password and query, fit for logs and files."""
    parts = urlsplit(uri)
    if "@" in parts.netloc:
        parts = parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2])
    return parts._replace(query="", fragment="").geturl() if not uri.startswith("sqlite:") else uri


def scrubbed(text: str, uri: str) -> str:
    """`text` (an error's message) with the address's credentials replaced, wherever they stand."""
    text = text.replace(uri, masked(uri))
    parts = urlsplit(uri)
    for secret in {parts.password, os.environ.get("MLFLOW_TRACKING_PASSWORD"), os.environ.get("MLFLOW_TRACKING_TOKEN")}:
        if secret:
            text = text.replace(secret, "***").replace(unquote(secret), "***")
    return re.sub(r"//[^/@\s]*@", "//***@", text)
