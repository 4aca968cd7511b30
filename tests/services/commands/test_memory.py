"""`dragoman memory`: TMX in and out."""

import re
from contextlib import closing
from pathlib import Path

import pytest
from lxml import etree

from dragoman.model.errors import UserError
from dragoman.model.inputs.units import units_of
from dragoman.services.commands.memory import MemoryConfig, memory
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.memory_store import MemoryStore, Unit

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="en-US" datatype="plaintext" segtype="sentence" adminlang="en" o-tmf="x"
 creationtool="x" creationtoolversion="1"/><body>
<tu><tuv xml:lang="en-US"><seg>the dog &amp; the man</seg></tuv>
<tuv xml:lang="de"><seg>der Hund &amp; der Mann</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>a house</seg></tuv><tuv xml:lang="fr"><seg>une maison</seg></tuv></tu>
</body></tmx>
"""


@pytest.fixture
def config(tmp_path: Path) -> MemoryConfig:
    return MemoryConfig(f"sqlite:///{tmp_path}/endpoint.db")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "known.tmx"
    path.write_text(TMX, encoding="utf-8")
    return path


def stored(config: MemoryConfig) -> set[Unit]:
    with closing(KeyStore(config.database)) as keys:
        rows = MemoryStore(keys).rows()
    return {Unit(row.source, row.target, row.text, row.translation) for row in rows}


def test_a_tmx_file_is_imported_in_both_directions_or_in_one(
    config: MemoryConfig, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.pair = "en-de"
    assert memory(config, ["import", str(file)]) == 0
    assert stored(config) == {Unit("en", "de", "the dog & the man", "der Hund & der Mann")}
    config.pair = None
    memory(config, ["import", str(file)])
    assert len(stored(config)) == 5
    assert Unit("fr", "en-US", "une maison", "a house") in stored(config)
    capsys.readouterr()
    memory(config, [])
    assert "de-en-US  everybody  known.tmx  1" in capsys.readouterr().out


def test_what_is_exported_can_be_imported(config: MemoryConfig, tmp_path: Path) -> None:
    units = {Unit("en", "de", "a < b & \x0c“c”", "A < B\n& „C“"), Unit("de", "en", "Hund", "dog")}
    with closing(KeyStore(config.database)) as keys:
        MemoryStore(keys).put(units, "x")
    out = tmp_path / "out.tmx"
    memory(config, ["export", str(out)])
    root = etree.parse(out).getroot()
    assert (root.tag, root.get("version"), len(root.find("body"))) == ("tmx", "1.4", 2)
    found = [sorted(unit.items()) for unit in units_of(out)]
    assert sorted(found) == [[("de", "A < B & „C“"), ("en", "a < b & “c”")], [("de", "Hund"), ("en", "dog")]]
    config.pair = "de-en"
    memory(config, ["export", str(out)])
    assert list(units_of(out)) == [{"de": "Hund", "en": "dog"}]


def test_units_are_deleted_by_pair_or_origin(config: MemoryConfig, file: Path) -> None:
    memory(config, ["import", str(file)])
    config.origin = "other.tmx"
    memory(config, ["clear"])
    assert len(stored(config)) == 4
    config.origin = "known.tmx"
    memory(config, ["clear"])
    assert stored(config) == set()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list"], "is not there; `dragoman memory import FILE` makes it"),
        (["import"], "memory import: name one file"),
        (["import", "none.tmx"], "none.tmx is no file"),
        (["drop"], "'drop' is not known. Choices: clear, export, import, list"),
    ],
)
def test_mistakes_are_named(config: MemoryConfig, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        memory(config, words)


def test_a_file_that_is_no_tmx_or_has_nothing_of_the_pair_is_named(config: MemoryConfig, file: Path) -> None:
    config.pair = "en-ja"
    with pytest.raises(UserError, match="has no unit of en-ja"):
        memory(config, ["import", str(file)])
    file.write_text("hello\n")
    with pytest.raises(UserError, match="is no TMX file"):
        memory(config, ["import", str(file)])
