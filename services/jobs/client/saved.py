"""The tokens of `dragoman login`: one for each service, in a file of the home that no job may read."""

import json
import os
from pathlib import Path

from dragoman.model.files import atomic_write


def path_of(home: str | Path) -> Path:
    """Returns the file."""
    return Path(home) / "service" / "login.json"


def read_token(home: str | Path, address: str) -> str | None:
    """Returns the token for the service at `address`, and for no other; None if there is none."""
    return _read(path_of(home)).get(address.rstrip("/"))


def save_token(home: str | Path, address: str, token: str | None) -> None:
    """Stores the token for a service, for this user alone; None removes it."""
    path = path_of(home)
    found = {key: value for key, value in _read(path).items() if key != address.rstrip("/")}
    if token is not None:
        found[address.rstrip("/")] = token
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077)
    try:
        atomic_write(path, json.dumps(found))
    finally:
        os.umask(before)


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
