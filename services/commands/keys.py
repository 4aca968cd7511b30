"""`dragoman keys [add NAME | list | show NAME | revoke NAME]`: the API keys of `dragoman serve`."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.conf import compose
from dragoman.conf.options import positional
from dragoman.conf.showing import show
from dragoman.model.errors import UserError, unknown
from dragoman.model.ranges import Count, check_ranges
from dragoman.services.commands.runs import age
from dragoman.services.endpoint.key_store import KeyStore, StoredKey
from dragoman.services.endpoint.keys import month_of
from dragoman.services.jobs.client import table
from dragoman.services.models.home import run_section

ACTIONS = ("add", "list", "show", "revoke")


@dataclass
class KeysConfig:
    """The database of the keys, and the limits of a new one."""

    database: str = "sqlite:///artifacts/endpoint/endpoint.db"
    characters: Count | None = None  # a month; null: no limit
    requests: Count | None = None  # a minute


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code."""
    words, rest = positional(argv)
    return run_section(lambda config: keys(config, words), "keys", KeysConfig, rest, "keys")


def keys(config: KeysConfig, words: Sequence[str]) -> int:
    """Does what the words say; without words it lists."""
    check_ranges("keys", config)
    action, names = (words[0], words[1:]) if words else ("list", [])
    if action not in ACTIONS:
        raise unknown("action", action, ACTIONS)
    if len(names) != (0 if action == "list" else 1):
        raise UserError(f"keys {action}: {'takes no name' if action == 'list' else 'name one key'}")
    store = KeyStore(config.database)
    try:
        if action == "add":
            key = store.add(names[0], config.characters, config.requests)
            show([{"name": names[0], "key": key}], lambda: key)
        elif action == "revoke":
            store.revoke(names[0])
            message = f"revoked {names[0]}; servers refuse it within seconds"
            if all(key.revoked is not None for key in store.all()):
                message += ". No key is valid now, so they refuse every request"
            show([{"name": names[0], "state": "revoked"}], lambda: message)
        elif not store.there():
            raise UserError(f"keys.database: {config.database} has no keys yet; `dragoman keys add NAME` makes one")
        elif action == "show":
            _show(store, names[0])
        else:
            _list(store)
    finally:
        store.close()
    return compose.OK


def _list(store: KeyStore) -> None:
    records = []
    for key in store.all():
        month = next((used.characters for used in store.months(key.digest) if used.period == month_of(time.time())), 0)
        records.append({**_record(key), "month": month})
    table.show(records, {**WHO, "THIS MONTH": "month", **LIMITS})


def _show(store: KeyStore, name: str) -> None:
    key = next((row for row in store.all() if row.name == name), None)
    if key is None:
        raise unknown("key", name, [row.name for row in store.all()])
    used = store.months(key.digest)
    months = [{"month": month.period, "characters": month.characters, "requests": month.requests} for month in used]
    by_month = table.of_records(months, {name.upper(): name for name in months[0]}) if months else "never used"
    table.show([{**_record(key), "months": months}], {**WHO, **LIMITS}, by_month)


def _record(key: StoredKey) -> dict[str, Any]:
    """Returns a key's facts, without the key."""
    return {
        "name": key.name,
        "state": "valid" if key.revoked is None else "revoked",
        "created": key.created,
        "revoked": key.revoked,
        "characters": key.characters,
        "requests": key.requests,
    }


WHO: dict[str, table.Column] = {"NAME": "name", "STATE": "state", "AGE": lambda key: age(key["created"])}
LIMITS: dict[str, table.Column] = {
    "CHARACTERS": lambda key: "-" if key["characters"] is None else f"{key['characters']} a month",
    "REQUESTS": lambda key: "-" if key["requests"] is None else f"{key['requests']} a minute",
}
