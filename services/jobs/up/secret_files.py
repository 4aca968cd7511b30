"""Secrets of a service that is set up automatically: files, as containers and Kubernetes mount them."""

import os
from pathlib import Path

from sqlalchemy import make_url

from model.errors import UserError
from services.jobs.ledger.access import FROM_FILE, ROLES, Access
from services.jobs.up.settings import UpRoot


def read_secret(key: str, path: str) -> str:
    """Returns the content of a file without the line end.

    Raises:
        UserError: it is empty or cannot be read; names the key.
    """
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"{key}: {path} cannot be read ({problem})") from None
    if not text:
        raise UserError(f"{key}: {path} holds nothing")
    return text


def enter_tokens(access: Access, files: dict[str, str]) -> None:
    """Enters the tokens of `service.tokens`, the admin's first; each is named after its role.

    Raises:
        UserError: names the role or the file.
    """
    for role in sorted(files, key=lambda one: (one != "admin", one)):
        if role not in ROLES:
            raise UserError(f"service.tokens.{role}: no role. Choices: {', '.join(ROLES)}")
        access.enter(f"{FROM_FILE}{role}", role, read_secret(f"service.tokens.{role}", files[role]), "up")


def secrets_of(root: UpRoot) -> list[Path]:
    """Returns the service's files outside its own folder, which no job may open, wherever they lie."""
    service = root.service
    found = [
        service.ledger_password,
        *service.tokens.values(),
        service.token_file,
        service.kueue.token_file,
        root.jobs.key_file,
    ]
    found += [path for name, path in os.environ.items() if name in ("RAY_AUTH_TOKEN_PATH", "DRAGOMAN_KEY_FILE")]
    if service.ledger.startswith("sqlite:"):
        found.append(make_url(service.ledger).database)
    return [Path(path).expanduser().absolute() for path in found if path]
