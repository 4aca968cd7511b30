"""People whom an authenticating proxy lets in: their name, their role and their teams, by their groups."""

import hmac

from fastapi import HTTPException, Request

from dragoman.model.errors import UserError
from dragoman.model.names import check_name
from dragoman.services.jobs.ledger.access import OTHERS, ROLES, SYSTEM, Access, Person, Role
from dragoman.services.jobs.ledger.asked import tell_person
from dragoman.services.jobs.settings import ANYBODY, ProxyConfig

LASTS = 600.0  # seconds after which an open stream ends, so that the proxy is asked again


class Proxy:
    """The proxy in front of the service."""

    def __init__(self, config: ProxyConfig, secret: str, access: Access) -> None:
        self.config, self.access, self._secret = config, access, secret.encode()

    def person(self, request: Request) -> Person | None:
        """Returns whom the proxy names; None if the request names nobody."""
        names = request.headers.getlist(str(self.config.header))
        if not names:
            return None
        secrets = request.headers.getlist(self.config.secret_header)
        if len(secrets) != 1 or not hmac.compare_digest(secrets[0].encode(), self._secret):
            raise HTTPException(401, f"{self.config.header} came without the proxy's secret")
        if len(names) > 1:
            raise HTTPException(403, f"{self.config.header} came {len(names)} times; the proxy sets it once")
        owner = self._owner(names[0])
        header_values = ",".join(request.headers.getlist(self.config.groups_header)).split(",")
        groups = frozenset(filter(None, map(str.strip, header_values)))
        role = next((role_name for role_name in reversed(ROLES) if self._has(role_name, groups)), None)
        if role is None:
            raise HTTPException(
                403, f"none of your {len(groups)} groups is let in; an administrator adds one to service.proxy.roles"
            )
        tell_person(owner)
        return Person(owner, role, "", self.access.ledger.now() + LASTS, groups & frozenset(self.config.teams))

    def _owner(self, name: str) -> str:
        if self.config.domain is not None:
            name, _, domain = name.rpartition("@")
            if domain != self.config.domain:
                raise HTTPException(403, f"{self.config.header}: no name of {self.config.domain}")
        try:
            owner = check_name(str(self.config.header), name)
        except UserError as problem:
            raise HTTPException(403, str(problem)) from None
        if owner in SYSTEM or owner == OTHERS or owner in self.config.teams:
            raise HTTPException(403, f"the name {owner!r} is the service's own, or a team's")
        return owner

    def _has(self, role: Role, groups: frozenset[str]) -> bool:
        groups_of_role = self.config.roles.get(role, [])
        return ANYBODY in groups_of_role or not groups.isdisjoint(groups_of_role)
