"""A server on a socket: every unmodified client that is installed gets what the server says."""

import gc
import shutil
import warnings
from pathlib import Path

import pytest

from dragoman.model.errors import ServiceError, UserError
from tests.clients import __main__ as clients
from tests.clients.__main__ import Question, find_server, show
from tests.clients.checks import Outcome, Server, judge
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


def test_another_translation_than_the_servers_is_a_failure() -> None:
    assert judge("c", "1", "translate", "HUND", "HUND").state == "ok"
    assert judge("c", "1", "translate", "HUN", "HUND").state == "failed"
    assert judge("c", "1", "languages", [], None).state == "failed"


def test_the_table_counts_and_the_exit_code_tells(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = Question(url=url, only=["libretranslatepy", "deepl-node"], node=str(tmp_path))
    code = show(config)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CLIENT", "VERSION", "ASKED", "STATE", "ANSWER"]
    assert lines[1].split()[2:4] == ["translate", "ok"]
    assert "npm install deepl-node" in "\n".join(lines)
    assert code == 0
    config.only = ["libretranslatepy"]
    config.texts = ["Go !bad now"]
    with pytest.raises(ServiceError, match="500"):
        show(config)


def test_clients_of_one_name_in_two_registries_are_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        Outcome("translate", "3.8.1", "translate", "ok", "A"),
        Outcome("translate", "3.1.0", "translate", "ok", "A"),
        Outcome("deepl", "1.32.0", "translate", "ok", "A"),
        Outcome("deepl", "1.32.0", "usage", "failed", "404"),
        Outcome("deep-translator", "", "", "not installed", "pip install deep-translator"),
    ]
    monkeypatch.setattr(clients, "ask_all", lambda _server, _config: iter(found))
    monkeypatch.setattr(clients, "find_server", lambda _config, _text: None)
    assert show(Question()) == 1
    assert capsys.readouterr().out.splitlines()[-1] == (
        "2 clients work; 3 questions answered, 1 failed; 1 clients are not installed"
    )


def test_languages_may_be_spelled_otherwise(url: str) -> None:
    found = find_server(Question(url=url, source="EN-us", target="ger"))
    assert (found.source, found.target) == ("en", "de")


def test_mistakes_are_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--only deeple: is none of"):
        show(Question(url=url, only=["deeple"]))
    with pytest.raises(UserError, match="translates en-de"):
        find_server(Question(url=url, target="fr"))
    with pytest.raises(UserError, match=r"--key .*: cannot be read"):
        find_server(Question(url=url, key=str(tmp_path / "none")))
    with pytest.raises(ServiceError, match="dragoman serve"):
        find_server(Question(url="http://127.0.0.1:9"))


def test_a_script_that_breaks_is_a_failure(url: str, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    package = tmp_path / "node_modules" / "translate"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"version": "0", "main": "missing.js"}')
    (found,) = ask_node_clients(Server(url, "", "en", "de", "a", "A"), tmp_path, ["translate"])
    assert (found.state, found.answer[:5]) == ("failed", "Error")
    assert "translate" in found.answer
