"""A server on a socket: every unmodified client that is installed gets what the server says."""

import gc
import warnings
from pathlib import Path

import pytest

from tests.clients.__main__ import Question, find_server
from tests.clients.node_clients import SCRIPTS, ask_node_clients
from tests.clients.python_clients import CLIENTS, ask_python_clients

NODE = Path(__file__).parents[2] / "node_modules"  # where `npm install` puts them in a checkout


@pytest.mark.long
@pytest.mark.parametrize("name", [client.name for client in CLIENTS])
def test_python_clients_get_what_the_server_says(url: str, name: str) -> None:
    server = find_server(Question(url=url))
    found = list(ask_python_clients(server, [name]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sockets that clients leave open
        gc.collect()
    if found[0].state == "not installed":
        pytest.skip(f"{name} is not installed: {found[0].answer}")
    assert [one for one in found if one.state != "ok"] == []


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_node_clients_get_what_the_server_says(url: str, name: str) -> None:
    found = list(ask_node_clients(find_server(Question(url=url)), NODE.parent, [name]))
    if found[0].state == "not installed":
        pytest.skip(f"{name} is not installed: {found[0].answer}")
    assert [one for one in found if one.state != "ok"] == []
