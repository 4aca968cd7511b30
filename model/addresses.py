"""Addresses made safe to show: removes the users, passwords and tokens that they can hold."""

import configparser
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

_CREDENTIALS = re.compile(r"//[^/\s]*@")


def mask_credentials(text: str) -> str:
    """Returns `text`, an address or a message, with *** for the user and password of every address in it."""
    return _CREDENTIALS.sub("//***@", text)


def mask_address(uri: str) -> str:
    """Returns `uri` without user, password and query, safe for logs and files."""
    return (
        uri if uri.startswith("sqlite:") else mask_credentials(urlsplit(uri)._replace(query="", fragment="").geturl())
    )


def mlflow_login() -> dict[str, str]:
    """Returns the `username`, `password` and `token` that MLflow's clients send, those that are set.

    As in MLflow, a variable of the environment comes before the file ~/.mlflow/credentials, which has no token. The
    file is read at each call: a new password is used at once.
    """
    file = configparser.ConfigParser(interpolation=None)
    try:
        file.read(Path("~/.mlflow/credentials").expanduser(), encoding="utf-8")
    except (OSError, RuntimeError, ValueError, configparser.Error):
        file.clear()
    login = {}
    for name in ("username", "password", "token"):
        variable = f"MLFLOW_TRACKING_{name.upper()}"
        inherited = "" if name == "token" else file.get("mlflow", variable.lower(), fallback="")
        if value := os.environ.get(variable) or inherited:
            login[name] = value
    return login


def mask_secrets(text: str, uri: str) -> str:
    """Returns `text` (an error's message) without the secrets of the address `uri` and of MLflow."""
    text = text.replace(uri, mask_address(uri))
    login = mlflow_login()
    for secret in filter(None, (urlsplit(uri).password, login.get("password"), login.get("token"))):
        text = text.replace(secret, "***").replace(unquote(secret), "***")
    return mask_credentials(text)
