"""The section `service.oidc`: people who sign in at an OpenID Connect issuer."""

from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from dragoman.model.errors import UserError, unknown
from dragoman.model.ranges import Interval, Range

ROLES = ("viewer", "submitter", "admin")
ANYBODY = "*"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass
class OidcConfig:
    """The issuer, and how its claims become an owner with a role."""

    issuer: str | None = None  # https://..., as in its tokens; null: nobody signs in there
    client_id: str | None = None
    client_secret: str | None = None  # a file; null: a public client
    scopes: list[str] = field(default_factory=lambda: ["openid", "profile", "email"])
    audience: str | None = None  # of access tokens that programs send; null: they send ID tokens
    owner: str = "preferred_username"  # the claim with the owner's name
    domain: str | None = None  # of names like anna@DOMAIN: it is left out, and others are refused
    groups: str = "groups"  # the claim with the groups; a.b is b within a
    roles: dict[str, list[str]] = field(default_factory=dict)  # role: groups that have it; "*": everybody
    session: Interval = 43_200.0  # seconds that a sign-in lasts
    skew: Annotated[float, Range(0, 300)] = 60.0  # seconds between the issuer's clock and ours

    def check(self) -> None:
        """Refuses impossible values.

        Raises:
            UserError: names the key and the value.
        """
        if self.issuer is None:
            if self.client_id is not None or self.roles:
                raise UserError("service.oidc.issuer: is missing; the other keys of service.oidc need it")
            return
        check_web_address("service.oidc.issuer", self.issuer)
        if "openid" not in self.scopes or any(not one or " " in one for one in self.scopes):
            raise UserError(f"service.oidc.scopes={self.scopes}: needs openid, and has no blanks within a scope")
        for key in ("client_id", "owner", "groups"):
            if not getattr(self, key):
                raise UserError(f"service.oidc.{key}: is missing; the issuer's page of this client says it")
        for role in self.roles:
            if role not in ROLES:
                raise unknown("service.oidc.roles", role, ROLES)
        if not any(self.roles.values()):
            raise UserError(
                "service.oidc.roles: nobody could sign in; say who may: '+service.oidc.roles.submitter=[GROUP]'"
            )


def check_web_address(key: str, address: str) -> None:
    """Raises UserError unless it is https://HOST/..., or http on this machine, without a query."""
    try:
        parts = urlsplit(address)
        secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    except ValueError:
        parts, secure = urlsplit(""), False
    if not secure or not parts.hostname or parts.username or parts.query or parts.fragment or "\\" in address:
        raise UserError(f"{key}={address}: give it as https://HOST/...; http only for this machine")
