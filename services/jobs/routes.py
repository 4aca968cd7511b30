"""The routes of the REST interface, by name: the server answers them, the client and the command line ask by them."""

from collections.abc import Mapping
from typing import NamedTuple


class Route(NamedTuple):
    """A method and a path, in which {id}, {name} and {owner} stand for a part."""

    method: str
    path: str


ROUTES: Mapping[str, Route] = {
    "status": Route("GET", "/status"),
    "plan": Route("POST", "/v1/plans"),
    "submit": Route("POST", "/v1/jobs"),
    "jobs": Route("GET", "/v1/jobs"),
    "events": Route("GET", "/v1/events"),
    "job": Route("GET", "/v1/jobs/{id}"),
    "why": Route("GET", "/v1/jobs/{id}/why"),
    "curves": Route("GET", "/v1/jobs/{id}/curves"),
    "log": Route("GET", "/v1/jobs/{id}/logs"),
    "log-events": Route("GET", "/v1/jobs/{id}/log-events"),
    "stop": Route("POST", "/v1/jobs/{id}/stop"),
    "yield": Route("POST", "/v1/jobs/{id}/yield"),
    "retry": Route("POST", "/v1/jobs/{id}/retry"),
    "priority": Route("POST", "/v1/jobs/{id}/priority"),
    "after": Route("POST", "/v1/jobs/{id}/after"),
    "remove": Route("DELETE", "/v1/jobs/{id}"),
    "me": Route("GET", "/v1/me"),
    "tokens": Route("GET", "/v1/tokens"),
    "issue": Route("POST", "/v1/tokens"),
    "rotate": Route("POST", "/v1/tokens/{name}/rotate"),
    "revoke": Route("DELETE", "/v1/tokens/{name}"),
    "quotas": Route("GET", "/v1/quotas"),
    "set-quota": Route("PUT", "/v1/quotas/{owner}"),
}
