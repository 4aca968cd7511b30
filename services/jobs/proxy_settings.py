"""The section `service.proxy`: people whom an authenticating proxy has let in."""

from dataclasses import dataclass, field

from dragoman.model.errors import UserError, unknown
from dragoman.model.ranges import Interval

ROLES = ("viewer", "submitter", "admin")
ANYBODY = "*"


@dataclass
class ProxyConfig:
    """The headers of the proxy, and how they become an owner with a role."""

    header: str | None = None  # with the person's name, X-Forwarded-Preferred-Username; null: nobody comes by a proxy
    secret: str | None = None  # a file; the proxy sends its content with each request
    secret_header: str = "X-Dragoman-Proxy-Secret"
    groups_header: str = "X-Forwarded-Groups"  # names with commas between
    domain: str | None = None  # of names like anna@DOMAIN: it is left out, and others are refused
    roles: dict[str, list[str]] = field(default_factory=dict)  # role: groups that have it; "*": everybody
    session: Interval = 43_200.0  # seconds that a `dragoman login` lasts

    def check(self) -> None:
        """Refuses impossible values.

        Raises:
            UserError: names the key and the value.
        """
        if self.header is None:
            return
        if self.secret is None:
            raise UserError("service.proxy.secret: is missing; without it anybody could send the header")
        for role in self.roles:
            if role not in ROLES:
                raise unknown("service.proxy.roles", role, ROLES)
        if not any(self.roles.values()):
            raise UserError(
                "service.proxy.roles: nobody would be let in; say who is: '+service.proxy.roles.submitter=[GROUP]'"
            )
