"""The files of a home that nobody but its user may read, and the secrets in them."""

import contextlib
import os
import stat
from pathlib import Path

from sqlalchemy import make_url

from dragoman.model.errors import UserError
from dragoman.model.files import read_secret
from dragoman.services.jobs.ledger.access import FROM_FILE, ROLES, Access
from dragoman.services.jobs.settings import UpRoot

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def close_to_others(home: Path) -> None:
    """Removes all permissions of group and others from `home` and everything of this user below it.

    The home comes first, so that others cannot reach the rest any more. Links are not followed.
    """
    _close(home)
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            _close(Path(folder) / name)


def _close(path: Path) -> None:
    with contextlib.suppress(OSError):  # it is gone, or the file system has no permissions
        status = path.lstat()
        if status.st_uid == os.getuid() and not stat.S_ISLNK(status.st_mode) and status.st_mode & OTHERS:
            path.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)


def enter_tokens(access: Access, files: dict[str, str]) -> None:
    """Enters the tokens of `service.tokens`, the admin's first; each is named after its role."""
    for role in sorted(files, key=lambda file: (file != "admin", file)):
        if role not in ROLES:
            raise UserError(f"service.tokens.{role}: no role. Choices: {', '.join(ROLES)}")
        access.enter(f"{FROM_FILE}{role}", role, read_secret(f"service.tokens.{role}", files[role]), "up")


def secrets_of(root: UpRoot) -> list[Path]:
    """Returns the service's and the endpoint's files outside their own folders, which no job may open."""
    service = root.service
    secrets = [
        service.ledger_password,
        *service.tokens.values(),
        service.token_file,
        service.proxy.secret,
        service.webhook.secret,
        root.jobs.key_file,
        *(root.serve[name] for name in ("keys", "documents")),
        *(os.environ.get(name) for name in ("RAY_AUTH_TOKEN_PATH", "DRAGOMAN_KEY_FILE", "PGPASSFILE")),
        *_database_files(service.ledger),
        *_database_files(root.serve["database"]),
    ]
    return [Path(path).expanduser().absolute() for path in secrets if path]


def _database_files(url: str | None) -> list[str]:
    """Returns the files of a sqlite database, with those that hold its newest rows; none for a server."""
    if url is None or not url.startswith("sqlite:"):
        return []
    path = make_url(url).database
    return [f"{path}{ending}" for ending in ("", "-wal", "-shm")] if path else []
