"""The commands of administrators: tokens and quotas."""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.conf import compose, showing
from dragoman.model.errors import UserError, unknown
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.settings import JobsConfig

ROLES = ("metrics", "viewer", "submitter", "admin")
TIMES = {"SINCE": table.at("created"), "ENDS": table.at("expires"), "LAST USED": table.at("used")}  # of a token
NO_BOUND = ("none", "null")
BOUNDS = ("cpus", "gpus", "jobs")  # of a quota


def quota(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the quotas, or sets one: OWNER cpus=N gpus=N jobs=N; what is not named is unlimited."""
    names, values = split("quota", words, BOUNDS)
    if names or values:
        if len(names) != 1 or not values:
            raise UserError("say whose and what: dragoman quota OWNER cpus=8 gpus=none")
        service.call("set-quota", bounds_of(values), owner=names[0])
    bounds = {key.upper(): _shown(key) for key in BOUNDS}
    return table.show(service.call("quotas"), {"OWNER": "owner", **bounds})


def token(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the tokens; `issue NAME owner=OWNER role=ROLE ends=90d` and `rotate NAME` print a new one once; `revoke
    NAME`."""
    names, values = split("token", words, ("owner", "role", "ends"))
    match names:
        case []:
            columns: dict[str, table.Column] = {"NAME": "name", "OWNER": "owner", "ROLE": "role"}
            return table.show(service.call("tokens"), columns | TIMES | {"REVOKED": table.at("revoked")})
        case ["issue", name] if "owner" in values:
            role = values.get("role", "submitter")
            if role not in ROLES:
                raise unknown("role", role, ROLES)
            _show_token(name, service.call("issue", {**values, "name": name, "role": role}))
        case ["rotate", name]:
            _show_token(name, service.call("rotate", name=name))
        case ["revoke", name]:
            service.call("revoke", name=name)
            showing.show([{"name": name, "state": "revoked"}], lambda: f"{name}: revoked")
        case _:
            usage = (
                f"token issue NAME owner=OWNER role={'|'.join(ROLES)} ends=90d, token rotate NAME, or token revoke NAME"
            )
            raise UserError(f"say dragoman token, {usage}")
    return compose.OK


def _show_token(name: str, issued: Mapping[str, str]) -> None:
    """Prints a new token, this once."""
    showing.show([{"name": name, **issued}], lambda: issued["token"])


def split(verb: str, words: Sequence[str], keys: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns the names, and the values of `keys`."""
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
    """Returns the limits of a quota."""
    bounds: dict[str, Any] = {key: _bound(key, values[key]) for key in BOUNDS if key in values}
    jobs = bounds.get("jobs")
    if jobs is not None:
        if jobs != int(jobs):
            raise UserError(f"jobs={values['jobs']}: a whole number, or none for no bound")
        bounds["jobs"] = int(jobs)
    return bounds


def _bound(key: str, text: str) -> float | None:
    if text in NO_BOUND:
        return None
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{key}={text}: a number, or none for no bound") from None


def _shown(key: str) -> table.Column:
    return lambda record: "no bound" if record[key] is None else f"{record[key]:g}"
