"""The command for the audit: who asked for which change, and who was refused."""

from collections.abc import Sequence

from dragoman.conf import compose, showing
from dragoman.model.errors import UserError
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.admin import split
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig

FILTERS = ("person", "what", "status", "since", "until")


def audit(config: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the newest jobs.show rows; `person=anna what=tokens status=4xx since=2d` choose."""
    names, filters = split("audit", words, FILTERS)
    if names:
        raise UserError(f"{names[0]}: a filter is written KEY=VALUE, such as what={names[0]}")
    found = list(service.every_audit_row(config.show, **filters))
    rows: list[Sequence[object]] = [("WHEN", "WHO", "TOKEN", "FROM", "STATUS", "WHAT", "DETAIL")]
    rows += [
        (
            *(table.clock(one["at"]), one["person"] or "unknown", one["token"].rpartition("/")[2] or "-"),
            *(one["address"], one["status"], f"{one['method']} {one['resource']}", one["detail"]),
        )
        for one in found
    ]
    showing.show(found, lambda: table.table(rows))
    return compose.OK
