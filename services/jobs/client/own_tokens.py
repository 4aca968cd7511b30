"""The command for the tokens that one makes for oneself."""

from collections.abc import Sequence

from dragoman.conf import compose, showing
from dragoman.model.errors import UserError
from dragoman.services.jobs.client import table
from dragoman.services.jobs.client.admin import show_token, split
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig


def tokens(_: JobsConfig, service: JobClient, words: Sequence[str]) -> int:
    """Lists the asker's tokens; `create NAME ends=30d role=ROLE` prints a new one once; `revoke NAME`."""
    names, values = split("tokens", words, ("ends", "role"))
    match names:
        case [] if not values:
            found = service.my_tokens()
            rows: list[Sequence[object]] = [("NAME", "KIND", "ROLE", "SINCE", "ENDS", "LAST USED")]
            times = ("created", "expires", "used")
            rows += [
                (one["name"], one["kind"], one["role"], *(table.clock(one[key]) for key in times)) for one in found
            ]
            showing.show(found, lambda: table.table(rows))
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
