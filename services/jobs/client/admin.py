"""The commands for the administrator: quotas, model owners, tokens, the cost of faults, what is no longer kept."""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.conf import compose, showing
from dragoman.model.durations import duration
from dragoman.model.errors import UserError, unknown
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig

ROLES = ("metrics", "viewer", "submitter", "admin")
RULES = ("succeeded", "failed", "stopped", "newest", "most", "runs", "limit")  # service.keep's, and the length
TIMES = ("created", "expires", "used", "revoked")  # of a token
NO_BOUND = ("none", "null")
BOUNDS = ("cpus", "gpus", "jobs")  # of a quota


def quota(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the quotas, or sets one: OWNER cpus=N gpus=N jobs=N; what is not named becomes unlimited."""
    names, values = split("quota", words, BOUNDS)
    if names:
        if len(names) > 1 or not values:
            raise UserError("say whose and what: dragoman quota OWNER cpus=8 gpus=none")
        service.set_quota(names[0], **bounds_of(values))
    elif values:
        raise UserError("say whose: dragoman quota OWNER cpus=8 gpus=none")
    found = service.quotas()
    rows: list[Sequence[object]] = [("OWNER", "CPUS", "GPUS", "JOBS")]
    rows += [(one["owner"], *(shown_bound(one[key]) for key in BOUNDS)) for one in found]
    showing.show(found, lambda: table.table(rows))
    return compose.OK


def owner(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the owners of registered models, or gives one to an owner or a project: MODEL OWNER|project=NAME."""
    names, values = split("owner", words, ("project",))
    match names:
        case [name] if values:
            service.give_model(name, project=values["project"])
        case [name, new] if not values:
            service.give_model(name, new)
        case [] if not values:
            pass
        case _:
            raise UserError("say which model and whose it becomes: dragoman owner MODEL OWNER|project=NAME")
    found = service.models()
    rows: list[Sequence[object]] = [("MODEL", "OWNER", "SINCE")]
    rows += [(one["name"], one["owner"], table.clock(one["since"])) for one in found]
    showing.show(found, lambda: table.table(rows))
    return compose.OK


def token(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the tokens; `issue NAME owner=OWNER role=ROLE` and `rotate NAME` print a new one once; `revoke NAME`."""
    names, values = split("token", words, ("owner", "role"))
    match names:
        case []:
            found = service.tokens()
            rows: list[Sequence[object]] = [("NAME", "OWNER", "ROLE", "SINCE", "ENDS", "LAST USED", "REVOKED")]
            rows += [
                (*(one[key] for key in ("name", "owner", "role")), *(table.clock(one[key]) for key in TIMES))
                for one in found
            ]
            showing.show(found, lambda: table.table(rows))
        case ["issue", name] if "owner" in values:
            role = values.get("role", "submitter")
            if role not in ROLES:
                raise unknown("role", role, ROLES)
            show_token(name, service.issue(name, values["owner"], role))
        case ["rotate", name]:
            show_token(name, service.rotate(name))
        case ["revoke", name]:
            service.revoke(name)
            showing.show([{"name": name, "state": "revoked"}], lambda: f"{name}: revoked")
        case _:
            usage = f"token issue NAME owner=OWNER role={'|'.join(ROLES)}, token rotate NAME, or token revoke NAME"
            raise UserError(f"say dragoman token, {usage}")
    return compose.OK


def bill(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Prints the cost of faults by cause, job and owner; of one owner with OWNER."""
    names, _values = split("bill", words, ())
    if len(names) > 1:
        raise UserError("say whose: dragoman bill OWNER")
    found = service.bill(names[0] if names else None)
    rows: list[Sequence[object]] = [
        ("OWNER", "JOB", "CAUSE", "ATTEMPTS", "LOST TOKENS", "LOST TIME", "START-UP", "AWAY")
    ]
    rows += [
        (one["owner"], one["job"], one["cause"], one["attempts"], f"{one['tokens']:,}", *_times(one)) for one in found
    ]
    total = {key: sum(one[key] for one in found) for key in ("attempts", "tokens", "seconds", "startup", "away")}
    rows.append(("all", "", "", total["attempts"], f"{total['tokens']:,}", *_times(total)))
    showing.show(found, lambda: table.table(rows))
    return compose.OK


def retention(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists what `service.keep` would delete now, or other rules: succeeded=90 newest=10. Deletes nothing."""
    names, rules = split("retention", words, RULES)
    if names:
        raise unknown("dragoman retention", names[0], RULES)
    found = service.retention(**rules)
    rows: list[Sequence[object]] = [("JOB", "OWNER", "STATE", "SINCE", "SIZE", "RUN")]
    rows += [
        (one["id"], one["owner"], one["state"], table.clock(one["changed"]), f"{one['bytes'] / 1e6:.1f} MB", one["run"])
        for one in found["jobs"]
    ]
    size = sum(one["bytes"] for one in found["jobs"])
    told = [f"{found['total']} jobs would be deleted; those above have {size / 1e6:.1f} MB"]
    told += [f"{count} stay: {reason}" for reason, count in found["stay"].items()]
    told.append("rules: " + " ".join(f"service.keep.{key}={value}" for key, value in found["rules"].items()))
    showing.show(found["jobs"], lambda: "\n".join([table.table(rows), *told]))
    return compose.OK


def show_token(name: str, token: str) -> None:
    """Prints a new token, this once."""
    showing.show([{"name": name, "token": token}], lambda: token)


def _times(one: dict[str, float]) -> tuple[str, str, str]:
    return duration(one["seconds"]), duration(one["startup"]), duration(one["away"])


def split(verb: str, words: Sequence[str], keys: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns the names, and the values of `keys`.

    Raises:
        UserError: there is another key, or an option.
    """
    names, values = list[str](), dict[str, str]()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and not word.startswith("-"):
            names.append(word)
        elif key in keys:
            values[key] = value
        else:
            raise unknown(f"dragoman {verb}", key, keys)
    return names, values


def bounds_of(values: Mapping[str, str]) -> dict[str, Any]:
    """Returns the limits of a quota. Raises UserError for a value that is no number and not `none`."""
    found: dict[str, Any] = {key: _bound(key, values[key]) for key in BOUNDS if key in values}
    jobs = found.get("jobs")
    if jobs is not None:
        if jobs != int(jobs):
            raise UserError(f"jobs={values['jobs']}: a whole number, or none for no bound")
        found["jobs"] = int(jobs)
    return found


def _bound(key: str, text: str) -> float | None:
    if text in NO_BOUND:
        return None
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{key}={text}: a number, or none for no bound") from None


def shown_bound(bound: float | None) -> str:
    return "no bound" if bound is None else f"{bound:g}"
