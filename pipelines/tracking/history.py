"""The history of the alias: each champion, its time, and the reason.

One tag of the *registered model* per event, `history/TIME-RANDOM`. Such tags live with the model's name. So they stay
when the alias is lost or a version is deleted, are in the registry's backup, and can be read by every machine that can
promote. Keys never repeat and none is written twice: the history only grows.
"""

import json
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

PREFIX = "history/"
Action = Literal["promoted", "forced", "refused", "rolled back", "policy"]


@dataclass(frozen=True)
class Event:
    """One event. `to` became champion in place of `before`, or (refused) did not."""

    action: Action
    to: str  # version number; none if a policy was set
    before: str | None  # the previous champion
    reason: str
    by: str  # user@machine
    time: str  # ISO 8601, UTC

    @property
    def moved(self) -> bool:
        """Returns True if the alias moved."""
        return self.action not in ("refused", "policy")


def now() -> str:
    """Returns the time for events, to the microsecond, in a form that sorts by time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def append(client: Any, name: str, event: Event) -> None:
    """Adds an event to the registered model `name`."""
    key = f"{PREFIX}{event.time.replace(':', '').replace('.', '-')}-{uuid.uuid4().hex[:6]}"
    client.set_registered_model_tag(name, key, json.dumps(asdict(event), ensure_ascii=False))


def read(client: Any, name: str) -> list[Event]:
    """Returns all events, oldest first."""
    tags = client.get_registered_model(name).tags
    return [Event(**json.loads(tags[key])) for key in sorted(tags) if key.startswith(PREFIX)]


def former_champions(events: list[Event], current: str | None) -> list[str]:
    """Returns the versions for a rollback, the nearest first: the champions before `current`.

    A rollback undoes the last move that still counts, so two in a row go back two champions, not back and forth.
    """
    standing: list[str] = []
    for event in events:
        if not event.moved:
            continue
        if not standing and event.before:
            standing.append(event.before)  # made champion by hand, before our record begins
        if event.action == "rolled back" and event.to in standing:
            del standing[len(standing) - standing[::-1].index(event.to) :]
        elif standing[-1:] != [event.to]:
            standing.append(event.to)
    if current in standing:  # later moves were recorded but, after a crash, never done
        del standing[len(standing) - 1 - standing[::-1].index(current) :]
    return [number for number in dict.fromkeys(reversed(standing)) if number != current]
