"""The commands of people and administrators: tokens, projects, quotas, model owners, bills, the audit."""

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
TIMES = {"SINCE": table.at("created"), "ENDS": table.at("expires"), "LAST USED": table.at("used")}  # of a token
PROJECT = "project "  # begins the name of a project's account
NO_BOUND = ("none", "null")
BOUNDS = ("cpus", "gpus", "jobs")  # of a quota


def quota(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the quotas, or sets one: OWNER, or "project NAME", cpus=N gpus=N jobs=N; what is not named is unlimited."""
    names, values = split("quota", words, BOUNDS)
    if names:
        if len(names) > 1 or not values:
            raise UserError("say whose and what: dragoman quota OWNER cpus=8 gpus=none")
        project = names[0].removeprefix(PROJECT)
        if project != names[0]:
            service.set_project_quota(project, **bounds_of(values))
        else:
            service.set_quota(names[0], **bounds_of(values))
    elif values:
        raise UserError("say whose: dragoman quota OWNER cpus=8 gpus=none")
    bounds = {key.upper(): _shown(key) for key in BOUNDS}
    return table.show(service.quotas(), {"OWNER": "owner", **bounds})


def owner(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the owners of models, or gives a model, shards or a run away."""
    names, values = split("owner", words, ("project",))
    match names:
        case [name] if values:
            service.give(name, project=values["project"])
        case [name, new] if not values:
            service.give(name, new)
        case [] if not values:
            pass
        case _:
            raise UserError("say what and whose: dragoman owner MODEL|shards/NAME|runs/NAME OWNER|project=NAME")
    return table.show(service.models(), {"MODEL": "name", "OWNER": "owner", "SINCE": table.at("since")})


def token(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the tokens; `issue NAME owner=OWNER role=ROLE` and `rotate NAME` print a new one once; `revoke NAME`."""
    names, values = split("token", words, ("owner", "role"))
    match names:
        case []:
            columns: dict[str, table.Column] = {"NAME": "name", "OWNER": "owner", "ROLE": "role"}
            return table.show(service.tokens(), columns | TIMES | {"REVOKED": table.at("revoked")})
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
    bill_rows = service.bill(names[0] if names else None)
    rows: list[Sequence[object]] = [
        ("OWNER", "JOB", "CAUSE", "ATTEMPTS", "LOST TOKENS", "LOST TIME", "START-UP", "AWAY")
    ]
    rows += [
        (row["owner"], row["job"], row["cause"], row["attempts"], f"{row['tokens']:,}", *_times(row))
        for row in bill_rows
    ]
    total = {key: sum(row[key] for row in bill_rows) for key in ("attempts", "tokens", "seconds", "startup", "away")}
    rows.append(("all", "", "", total["attempts"], f"{total['tokens']:,}", *_times(total)))
    showing.show(bill_rows, lambda: table.table(rows))
    return compose.OK


def retention(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists what `service.keep` would delete now, or other rules: succeeded=90 newest=10. Deletes nothing."""
    names, rules = split("retention", words, RULES)
    if names:
        raise unknown("dragoman retention", names[0], RULES)
    expired = service.retention(**rules)
    size = sum(job["bytes"] for job in expired["jobs"])
    lines = [f"{expired['total']} jobs would be deleted; those above have {size / 1e6:.1f} MB"]
    lines += [f"{count} stay: {reason}" for reason, count in expired["stay"].items()]
    lines.append("rules: " + " ".join(f"service.keep.{key}={value}" for key, value in expired["rules"].items()))
    columns: dict[str, table.Column] = {"JOB": "id", "OWNER": "owner", "STATE": "state", "SINCE": table.at("changed")}
    columns |= {"SIZE": lambda job: f"{job['bytes'] / 1e6:.1f} MB", "RUN": "run"}
    return table.show(expired["jobs"], columns, *lines)


def show_token(name: str, token: str) -> None:
    """Prints a new token, this once."""
    showing.show([{"name": name, "token": token}], lambda: token)


def _times(row: dict[str, float]) -> tuple[str, str, str]:
    return duration(row["seconds"]), duration(row["startup"]), duration(row["away"])


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
    return lambda record: shown_bound(record[key])


def shown_bound(bound: float | None) -> str:
    return "no bound" if bound is None else f"{bound:g}"


def tokens(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the asker's tokens; `create NAME ends=30d role=ROLE` prints a new one once; `revoke NAME`."""
    names, values = split("tokens", words, ("ends", "role"))
    match names:
        case [] if not values:
            columns: dict[str, table.Column] = {"NAME": "name", "KIND": "kind", "ROLE": "role"}
            return table.show(service.my_tokens(), columns | TIMES)
        case ["create", name]:
            show_token(name, service.make_token(name, values.get("ends"), values.get("role")))
        case ["revoke", name] if not values:
            service.revoke_mine(name)
            showing.show([{"name": name, "state": "revoked"}], lambda: f"{name}: revoked")
        case _:
            raise UserError(
                "say dragoman tokens, tokens create NAME ends=30d role=viewer|submitter|admin, or tokens revoke NAME"
            )
    return compose.OK


KEYS = (*BOUNDS, "group", "role")
USAGE = (
    "say dragoman projects; projects show|rm NAME; projects create NAME cpus=N gpus=N jobs=N group=GROUP; "
    "projects quota NAME cpus=N|none gpus=N|none jobs=N|none; projects add NAME OWNER role=member|maintainer; "
    "or projects remove NAME OWNER"
)


def projects(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the projects, shows one, or changes one and shows it."""
    names, values = split("projects", words, KEYS)
    match names:
        case [] | ["list"] if not values:
            return table.show(
                service.projects(),
                {
                    "PROJECT": "name",
                    "MEMBERS": lambda row: len(row["members"]),
                    "CPUS": lambda row: _held(row["held_cpus"], row["cpus"]),
                    "GPUS": lambda row: _held(row["held_gpus"], row["gpus"]),
                    "RUNNING": lambda row: _held(row["running"], row["jobs"]),
                    "WAITING": "waiting",
                    "MODELS": lambda row: ", ".join(row["models"]) or "-",
                },
            )
        case ["create", name] if "role" not in values:
            service.create_project(name, values.get("group", ""))
            if set(values) & set(BOUNDS):
                service.set_project_quota(name, **bounds_of(values))
        case ["quota", name] if values and set(values) <= set(BOUNDS):
            service.set_project_quota(name, **bounds_of(values))
        case ["add", name, owner] if set(values) <= {"role"}:
            service.add_member(name, owner, values.get("role", "member"))
        case ["remove", name, owner] if not values:
            service.remove_member(name, owner)
            showing.show([{"project": name, "owner": owner, "state": "removed"}], lambda: f"{owner}: removed")
            return compose.OK
        case ["rm", name] if not values:
            service.remove_project(name)
            showing.show([{"name": name, "state": "removed"}], lambda: f"{name}: removed")
            return compose.OK
        case ["show", name] if not values:
            pass
        case _:
            raise UserError(USAGE)
    _show_one(service, name)
    return compose.OK


def _show_one(service: JobClient, name: str) -> None:
    project = service.one_project(name)
    facts: list[Sequence[object]] = [
        ("project", project["name"]),
        ("since", table.clock(project["created"])),
        ("CPUs", _held(project["held_cpus"], project["cpus"])),
        ("GPUs", _held(project["held_gpus"], project["gpus"])),
        ("jobs", f"{_held(project['running'], project['jobs'])} run, {project['waiting']} wait"),
        ("models", ", ".join(project["models"]) or "none"),
        ("group", project["group"] or "none"),
    ]
    rows: list[Sequence[object]] = [("MEMBER", "ROLE", "BY")]
    rows += [(member["owner"], member["role"], "group" if member["by_group"] else "-") for member in project["members"]]
    showing.show([project], lambda: f"{table.table(facts)}\n\n{table.table(rows)}")


def _held(held: float, bound: float | None) -> str:
    return f"{held:g}" if bound is None else f"{held:g} of {shown_bound(bound)}"


FILTERS = ("person", "what", "status", "since", "until")


def audit(config: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the newest jobs.show rows; `person=anna what=tokens status=4xx since=2d` choose."""
    names, filters = split("audit", words, FILTERS)
    if names:
        raise UserError(f"{names[0]}: a filter is written KEY=VALUE, such as what={names[0]}")
    columns: dict[str, table.Column] = {
        "WHEN": table.at("at"),
        "WHO": lambda row: row["person"] or "unknown",
        "TOKEN": lambda row: row["token"].rpartition("/")[2] or "-",
        "FROM": "address",
        "STATUS": "status",
        "WHAT": lambda row: f"{row['method']} {row['resource']}",
        "DETAIL": "detail",
    }
    return table.show(list(service.every_audit_row(config.show, **filters)), columns)
