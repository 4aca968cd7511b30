"""`dragoman keys`: what it prints and stores."""

import re
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.services.commands.keys import KeysConfig, keys


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/endpoint.db"


def test_a_key_is_added_listed_shown_and_revoked(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = KeysConfig(database, characters=500, requests=3)
    assert keys(config, ["add", "anna"]) == 0
    assert capsys.readouterr().out.startswith("dgk_")
    keys(config, [])
    assert capsys.readouterr().out.splitlines()[1].split("  ")[0] == "anna"
    keys(config, ["show", "anna"])
    shown = capsys.readouterr().out
    assert "500 a month" in shown and "3 a minute" in shown and "never used" in shown
    keys(config, ["revoke", "anna"])
    capsys.readouterr()
    keys(config, ["list"])
    assert "revoked" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list"], "has no keys yet; `dragoman keys add NAME`"),
        (["drop", "x"], "'drop' is not known. Choices: add, list, revoke, show"),
        (["add"], "keys add: name one key"),
        (["revoke", "nobody"], "there is none that is valid"),
    ],
)
def test_mistakes_are_named(database: str, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        keys(KeysConfig(database), words)
