"""Rules through the whole of a sharding: manifest, record and page show the drops; none of it where rules are off."""

import json
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import read_manifest
from dragoman.pipelines import shard
from dragoman.pipelines.corpus.pack.cleaning_record import PAGE, RECORD
from dragoman.pipelines.corpus.read.built_in import phrasebook
from tests.pipelines.corpus.planned import tsv_config

PAIRS = [(pair.english, pair.german) for pair in phrasebook()["train"][:400]]
GOOD = [f"{a}\t{b}" for a, b in PAIRS]
BAD = ["The <b>cat</b> sleeps.\tDie <b>Katze</i> schläft.", "She has 12 dogs.\tSie hat 13 Hunde."]


def _shard(folder: Path, lines: list[str], name: str, *words: str) -> Path:
    config = tsv_config(folder, lines, f"corpus.name={name}", *words)
    assert shard.task(config) == 0
    return Path(config.shard_dir)


def _tars(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tar"))}


def test_the_record_and_the_page_show_what_a_rule_dropped(tmp_path: Path) -> None:
    folder = _shard(
        tmp_path, [*GOOD, *BAD, GOOD[7].lower()], "bad", "corpus.clean.rules=[markup,numbers,near_duplicate]"
    )
    dropped = read_manifest(folder).dropped["train"]
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    for rule in ("markup", "numbers", "near_duplicate"):
        assert record["rules"][rule]["pairs"] == dropped[rule]
    assert dropped["markup"] == dropped["numbers"] == record["rules"]["markup"]["alone"] == 1
    assert record["kept"]["pairs"] == read_manifest(folder).splits["train"].records
    (sample,) = record["rules"]["markup"]["samples"]
    assert (sample["line"], sample["source"]) == (401, "The <b>cat</b> sleeps.")
    repeats = {one["line"]: one["beside"]["line"] for one in record["rules"]["near_duplicate"]["samples"]}
    assert repeats[403] == 8
    page = (folder / PAGE).read_text(encoding="utf-8")
    assert "The &lt;b&gt;cat&lt;/b&gt; sleeps." in page and "<b>cat" not in page


def test_rules_that_drop_nothing_leave_the_shards_as_they_are(tmp_path: Path) -> None:
    off = _shard(tmp_path, GOOD, "off")
    on = _shard(tmp_path, GOOD, "on", "corpus.clean.rules=[addresses]")
    assert not (off / RECORD).exists() and not (off / PAGE).exists()
    assert (on / RECORD).exists() and (on / PAGE).exists()
    assert len(_tars(off)) > 0 and list(_tars(off)) == list(_tars(on))
    one, two = read_manifest(off), read_manifest(on)
    assert one.texts == two.texts and one.dropped == two.dropped
    assert "rules" not in one.config["corpus"]["clean"], "older shards stay valid"


@pytest.mark.parametrize("word", ["corpus.clean.rules=nubmers", "corpus.clean.rules=[script,nubmers]"])
def test_a_misspelt_rule_stops_the_command_before_it_begins(tmp_path: Path, word: str) -> None:
    with pytest.raises(UserError, match="nubmers"):
        _shard(tmp_path, GOOD, "bad", word)
    assert not (tmp_path / "home").exists()
