"""A service with a project, its members and others."""

import contextlib
from pathlib import Path
from typing import Any

import httpx

from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.ledger.tables import Job
from tests.services.jobs.at_work import listening
from tests.services.jobs.processes import make_loop, words
from tests.services.jobs.test_ownership import Planner, Registered


class Team:
    """A service with root (admin), the project vision of anna, ben and carl (maintainer), and dora outside of it."""

    def __init__(self, home: Path, stack: contextlib.ExitStack) -> None:
        self.loop = make_loop(f"sqlite:///{home}/ledger.db", home)
        self.ledger, self.access, self.home = self.loop.ledger, self.loop.scheduler.access, home
        self.loop.capacity = self.loop.executor.capacity()
        self.loop.intake.planner = Planner(home)  # type: ignore[assignment]  # as far as it is asked
        self.loop.intake.ownership.tracking = self.registry = Registered()
        stack.callback(self.ledger.database.close)
        self.address = f"http://127.0.0.1:{stack.enter_context(listening(self.loop, True))}"
        roles = {"root": "admin", "anna": "submitter", "ben": "submitter", "carl": "submitter", "dora": "submitter"}
        self.tokens = {name: self.access.issue(name, name, role, "root") for name, role in roles.items()}
        self.people = {name: stack.enter_context(JobClient(self.address, one)) for name, one in self.tokens.items()}
        root = self.people["root"]
        root.create_project("vision")
        for name, role in (("anna", "member"), ("ben", "member"), ("carl", "maintainer")):
            root.add_member("vision", name, role)

    def submit(self, who: str, name: str, project: str = "vision", verb: str = "train", model: str = "") -> Job:
        """A job that has been planned, or refused."""
        line = [*words(self.home, name, 3), f"model={model}"]
        job = self.people[who].submit(verb, line, project=project)
        self.loop._take()
        return self.ledger.job(job["id"])

    def code(self, who: str, path: str, method: str = "GET", **more: Any) -> int:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        return httpx.request(method, self.address + path, headers=headers, timeout=60, **more).status_code

    def seen(self, who: str, **wanted: Any) -> set[str]:
        return {one["id"] for one in self.people[who].every_job(**wanted)}

    def start(self) -> None:
        self.loop.scheduler.run(self.loop.executor.capacity())
