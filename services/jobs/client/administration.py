"""The job service's client for quotas, projects, models, tokens, sign-ins and the audit."""

from collections.abc import Iterator
from typing import Any

from dragoman.services.jobs.client.connection import LARGEST, Connection, path_part


class Administration(Connection):
    """Requests of members, maintainers and admins beside jobs; errors are those of `Connection`."""

    def bill(self, owner: str | None = None) -> list[dict[str, Any]]:
        """Returns the tokens and seconds lost, by cause, job and owner."""
        query = {"owner": owner} if owner else {}
        return self._rows("/v1/bill", params=query)

    def quotas(self) -> list[dict[str, Any]]:
        """Returns the owners' quotas."""
        return self._rows("/v1/quotas")

    def set_quota(
        self, owner: str, cpus: float | None = None, gpus: float | None = None, jobs: int | None = None
    ) -> None:
        """Sets an owner's quota; None: no limit."""
        self._ask("PUT", f"/v1/quotas/{path_part(owner)}", json={"cpus": cpus, "gpus": gpus, "jobs": jobs})

    def projects(self) -> list[dict[str, Any]]:
        """Returns the asker's projects with members, quota and use; all for an admin."""
        return self._rows("/v1/projects")

    def one_project(self, name: str) -> dict[str, Any]:
        """Returns a project."""
        return self._json("GET", f"/v1/projects/{path_part(name)}")

    def create_project(self, name: str, group: str = "") -> dict[str, Any]:
        """Makes a project; people of the proxy's `group` become members when they come."""
        return self._json("POST", "/v1/projects", json={"name": name, "group": group})

    def remove_project(self, name: str) -> None:
        """Removes a project whose jobs have ended, and that has no models."""
        self._ask("DELETE", f"/v1/projects/{path_part(name)}")

    def set_project_quota(
        self, name: str, cpus: float | None = None, gpus: float | None = None, jobs: int | None = None
    ) -> None:
        """Sets a project's quota; None: no limit."""
        self._ask("PUT", f"/v1/projects/{path_part(name)}/quota", json={"cpus": cpus, "gpus": gpus, "jobs": jobs})

    def add_member(self, project: str, owner: str, role: str = "member") -> None:
        """Makes somebody a member, or changes their role: member or maintainer."""
        self._ask("PUT", f"/v1/projects/{path_part(project)}/members/{path_part(owner)}", json={"role": role})

    def remove_member(self, project: str, owner: str) -> None:
        """Ends a membership."""
        self._ask("DELETE", f"/v1/projects/{path_part(project)}/members/{path_part(owner)}")

    def models(self) -> list[dict[str, Any]]:
        """Returns the owners of registered models' names."""
        return self._rows("/v1/models")

    def give_model(self, name: str, owner: str = "", project: str = "") -> None:
        """Gives the name of a registered model to an owner, or to a project."""
        self._ask("PUT", f"/v1/models/{path_part(name)}", json={"owner": owner, "project": project})

    def retention(self, **rules: Any) -> dict[str, Any]:
        """Returns the jobs that `service.keep`, with `rules` in its place, would delete now."""
        return self._json("GET", "/v1/retention", params=rules)

    def every_audit_row(self, most: int | None = None, **wanted: str) -> Iterator[dict[str, Any]]:
        """Yields rows of the audit, newest first, at most `most`; `wanted`: person, what, status, since, until."""
        cursor = None
        while most is None or most > 0:
            limit = LARGEST if most is None else min(most, LARGEST)
            query = {**wanted, "limit": limit, **({"cursor": cursor} if cursor else {})}
            found = self._json("GET", "/v1/audit", params=query)
            yield from found["rows"]
            most = None if most is None else most - len(found["rows"])
            if (cursor := found["next"]) is None:
                return

    def tokens(self) -> list[dict[str, Any]]:
        """Returns all tokens' records; the tokens themselves are not stored."""
        return self._rows("/v1/tokens")

    def issue(self, name: str, owner: str, role: str) -> str:
        """Issues a token and returns it; it is shown only once."""
        return str(self._json("POST", "/v1/tokens", json={"name": name, "owner": owner, "role": role})["token"])

    def rotate(self, name: str) -> str:
        """Replaces a token and returns the new one; it is shown only once."""
        return str(self._json("POST", f"/v1/tokens/{path_part(name)}/rotate", json={})["token"])

    def revoke(self, name: str) -> None:
        """Makes a token invalid; OWNER/NAME is one that its owner made."""
        self._ask("DELETE", f"/v1/tokens/{'/'.join(map(path_part, name.split('/')))}")

    def begin_login(self) -> dict[str, Any]:
        """Asks to be let in: `code` is typed on `page`, `secret` takes the token then."""
        return self._json("POST", "/v1/login", json={})

    def finish_login(self, secret: str) -> str | None:
        """Returns the token once the code was typed; None before."""
        token = self._json("POST", "/v1/login/token", json={"secret": secret})["token"]
        return None if token is None else str(token)

    def me(self) -> dict[str, Any]:
        """Returns who asks: owner and role."""
        return self._json("GET", "/v1/me")

    def my_tokens(self) -> list[dict[str, Any]]:
        """Returns the records of the tokens that the asker made; the tokens themselves are not stored."""
        return self._rows("/v1/me/tokens")

    def make_token(self, name: str, ends: str | None = None, role: str | None = None) -> str:
        """Makes a token for the asker and returns it; it is shown only once. `ends`: 30d or a date, 90d if None."""
        body = {"name": name, "role": role, **({"ends": ends} if ends else {})}
        return str(self._json("POST", "/v1/me/tokens", json=body)["token"])

    def revoke_mine(self, name: str) -> None:
        """Makes one of the asker's own tokens invalid."""
        self._ask("DELETE", f"/v1/me/tokens/{path_part(name)}")
