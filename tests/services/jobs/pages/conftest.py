"""A job service with pages, one for the tests of a file."""

from collections.abc import Iterator

import pytest

from tests.services.jobs.pages.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    one = World(tmp_path_factory.mktemp("pages"))
    one.start()
    yield one
    one.close()
