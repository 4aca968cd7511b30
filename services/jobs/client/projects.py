"""The command for projects: owners who share jobs, models, folders and a quota."""

from collections.abc import Sequence

from dragoman.conf import compose, showing
from dragoman.model.errors import UserError
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.admin import BOUNDS, bounds_of, shown_bound, split
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig

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
            _show_all(service)
            return compose.OK
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


def _show_all(service: JobClient) -> None:
    found = service.projects()
    rows: list[Sequence[object]] = [("PROJECT", "MEMBERS", "CPUS", "GPUS", "RUNNING", "WAITING", "MODELS")]
    rows += [
        (
            *(one["name"], len(one["members"]), _of(one["held_cpus"], one["cpus"]), _of(one["held_gpus"], one["gpus"])),
            *(_of(one["running"], one["jobs"]), one["waiting"], ", ".join(one["models"]) or "-"),
        )
        for one in found
    ]
    showing.show(found, lambda: table.table(rows))


def _show_one(service: JobClient, name: str) -> None:
    found = service.one_project(name)
    facts: list[Sequence[object]] = [
        ("project", found["name"]),
        ("since", table.clock(found["created"])),
        ("CPUs", _of(found["held_cpus"], found["cpus"])),
        ("GPUs", _of(found["held_gpus"], found["gpus"])),
        ("jobs", f"{_of(found['running'], found['jobs'])} run, {found['waiting']} wait"),
        ("models", ", ".join(found["models"]) or "none"),
        ("group", found["group"] or "none"),
    ]
    rows: list[Sequence[object]] = [("MEMBER", "ROLE", "BY")]
    rows += [(one["owner"], one["role"], "group" if one["by_group"] else "-") for one in found["members"]]
    showing.show([found], lambda: f"{table.table(facts)}\n\n{table.table(rows)}")


def _of(held: float, bound: float | None) -> str:
    return f"{held:g}" if bound is None else f"{held:g} of {shown_bound(bound)}"
