"""A job service with pages and a client of them, one for the tests of a file."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.services.jobs.pages.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    one = World(tmp_path_factory.mktemp("pages"))
    one.start()
    yield one
    one.close()


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.address, headers={"Accept": "text/html"}, timeout=120) as client:
        client.get("/")  # begins its session
        yield client


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[World]:
    """A service of one test, which has not started."""
    one = World(tmp_path)
    yield one
    one.close()
