"""A command that names no corpus takes the only shards of the home, and lists them where there are several."""

import json
from pathlib import Path

import pytest

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.pipelines.config import Config
from dragoman.services.only_shards import with_only_shards


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    return tmp_path


def sharding(home: Path, folder: str, pair: str, tokenizer: str = "bpe", **corpus: str) -> Path:
    place = home / "shards" / folder
    place.mkdir(parents=True)
    config = {"corpus": {"format": "tsv", "name": "mine", **corpus}, "pair": pair, "tokenizer": {"type": tokenizer}}
    (place / "manifest.json").write_text(json.dumps({"config": config}))
    return place


@pytest.mark.parametrize(
    ("pair", "tokenizer", "corpus", "kind"),
    [
        ("en-fr", "bpe", {}, []),
        ("en", "bpe", {"format": "text"}, ["model=gpt_tiny", "registry=language"]),
        ("en", "words", {"format": "text"}, ["model=skipgram", "registry=vectors"]),
        ("en", "bpe", {"format": "labelled", "labels": "tags"}, ["model=tagger_transformer", "registry=labels"]),
    ],
)
def test_the_words_lead_to_the_only_shards(
    home: Path, pair: str, tokenizer: str, corpus: dict[str, str], kind: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    place = sharding(home, f"mine-{pair}-{tokenizer}", pair, tokenizer, **corpus)
    words = with_only_shards("train", ["train.max_steps=3"])
    form = corpus.get("format", "tsv")
    assert words == [
        f"corpus={form}", "corpus.name=mine", f"pair={pair}", f"tokenizer={tokenizer}", *kind, "train.max_steps=3"
    ]  # fmt: skip
    assert f"of the only shards here: corpus={form} corpus.name=mine" in capsys.readouterr().err
    assert compose.typed(Config, compose.values(words)).shard_dir == place


def test_shards_in_a_folder_of_another_name_are_named_by_it(home: Path) -> None:
    place = sharding(home, "other", "en-fr")
    assert with_only_shards("serve", [])[-1] == f"paths.shards={place}"


@pytest.mark.parametrize(
    "words",
    [["corpus=tsv"], ["experiment=demo"], ["name=x"], ["serve.model=models:/a@b"], ["translate.bundle=x"], ["RUN"]],
)
def test_a_command_that_says_which_is_left_as_it_is(home: Path, words: list[str]) -> None:
    sharding(home, "mine-en-fr-bpe", "en-fr")
    assert with_only_shards("train", words) == words


def test_several_are_listed_with_the_words_to_type(home: Path) -> None:
    sharding(home, "mine-en-fr-bpe", "en-fr")
    sharding(home, "mine-en-de-bpe", "en-de")
    with pytest.raises(UserError, match=r"2 shardings; say which:\n  dragoman train corpus=tsv .*pair=en-de"):
        with_only_shards("train", [])
    assert with_only_shards("runs", []) == []


def test_without_shards_and_with_damaged_ones_nothing_is_assumed(home: Path) -> None:
    assert with_only_shards("train", []) == []
    (sharding(home, "x", "en-fr") / "manifest.json").write_text("{")
    assert with_only_shards("train", []) == []
