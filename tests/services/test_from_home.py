"""A command that names no corpus takes the only shards of the home; of several it lists the words."""

import json
from pathlib import Path

import pytest

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.pipelines.config import Config
from dragoman.services import cli
from dragoman.services.from_home import with_home
from dragoman.services.jobs import confined
from dragoman.services.jobs.planning import worker


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
        ("en", "bpe", {"format": "text"}, ["model=gpt_modern", "registry=language"]),
        ("en", "words", {"format": "text"}, ["model=skipgram", "registry=vectors"]),
        ("en", "bpe", {"format": "labelled", "labels": "tags"}, ["model=tagger_transformer", "registry=labels"]),
    ],
)
def test_the_words_lead_to_the_only_shards(
    home: Path, pair: str, tokenizer: str, corpus: dict[str, str], kind: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    place = sharding(home, f"mine-{pair}-{tokenizer}", pair, tokenizer, **corpus)
    words = with_home("train", ["train.max_steps=3"])
    form = corpus.get("format", "tsv")
    assert words == [
        f"corpus={form}", "corpus.name=mine", f"pair={pair}", f"tokenizer={tokenizer}", *kind, "train.max_steps=3"
    ]  # fmt: skip
    assert f"the only one in {home}: corpus={form} corpus.name=mine" in capsys.readouterr().err
    assert compose.typed(Config, compose.values(words)).shard_dir == place


def test_shards_in_a_folder_of_another_name_are_named_by_it(home: Path) -> None:
    place = sharding(home, "other", "en-fr")
    assert with_home("promote", [])[-1] == f"paths.shards={place}"


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("train", ["corpus=tsv"]),
        ("train", ["experiment=demo"]),
        ("train", ["RUN"]),
        ("promote", ["registry.name=x"]),
        ("train", ["tran.max_steps=3"]),
    ],
)
def test_a_command_that_says_which_is_left_as_it_is(home: Path, verb: str, words: list[str]) -> None:
    sharding(home, "mine-en-fr-bpe", "en-fr")
    assert with_home(verb, words) == words


@pytest.mark.parametrize(
    ("verb", "words", "tokenizer", "kept"),
    [
        ("train", ["name=second"], "bpe", ["model=gpt_modern", "registry=language"]),
        ("train", ["registry.register=false"], "bpe", ["model=gpt_modern", "registry=language"]),
        ("train", ["~model.dropout"], "bpe", ["model=gpt_modern", "registry=language"]),
        ("train", ["model=gpt_small"], "bpe", []),
        ("train", ["train.init_from=first"], "bpe", ["registry=language"]),
        ("train", ["train.init_from=first", "model=gpt_small", "registry=masked"], "bpe", []),
        ("promote", ["registry=language"], "bpe", ["model=gpt_modern"]),
        ("compare", ["models=[rnnlm_gru,rnnlm_tanh]"], "words", []),
        ("evaluate", ["bundle=imported"], "words", ["model=skipgram", "registry=vectors"]),
    ],
)
def test_the_shards_are_taken_whatever_the_run_or_the_network(
    home: Path, verb: str, words: list[str], tokenizer: str, kept: list[str]
) -> None:
    sharding(home, f"mine-en-{tokenizer}", "en", tokenizer, format="text")
    own = ["corpus=text", "corpus.name=mine", "pair=en", f"tokenizer={tokenizer}", *kept]
    assert with_home(verb, words) == [*own, *words]


def test_several_are_listed_with_the_words_to_type(home: Path) -> None:
    sharding(home, "mine-en-fr-bpe", "en-fr")
    sharding(home, "mine-en-de-bpe", "en-de")
    with pytest.raises(UserError, match=r"2 shardings; say which:\n  dragoman train corpus=tsv .*pair=en-de"):
        with_home("train", [])
    assert with_home("runs", []) == []


def test_without_shards_or_with_damaged_ones_the_message_says_how_to_make_some(home: Path) -> None:
    with pytest.raises(UserError, match=r"no shards in .*dragoman shard corpus=tsv"):
        with_home("train", [])
    (sharding(home, "x", "en-fr") / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="no shards in"):
        with_home("train", [])


def test_shards_of_no_named_corpus_are_not_made() -> None:
    with pytest.raises(UserError, match=r"name a corpus: dragoman shard corpus=tsv .*corpus=everyday"):
        with_home("shard", ["tokenizer.vocabulary=300"])
    assert with_home("shard", ["corpus=everyday"]) == ["corpus=everyday"]


def test_a_rehearsed_command_is_left_as_it_is_because_another_home_may_be_meant(home: Path) -> None:
    with compose.rehearsal():
        assert with_home("train", []) == []
        assert with_home("shard", []) == []


def test_the_planner_takes_the_only_shards_that_the_owner_may_see(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    french, german = (sharding(home, f"mine-{pair}-bpe", pair) for pair in ("en-fr", "en-de"))
    monkeypatch.setattr(worker, "make_plan", lambda _, words, *__: {"words": words, "reads": {}})

    def answer(*visible: Path) -> str:
        places = {"roots": [str(home)], "secrets": [], "visible": [str(home), *map(str, visible)]}
        question = {"verb": "train", "words": ["seed=2"], "owner": "anna", "gpus": 0, "early": False, **places}
        return str(worker.answer(question))

    assert "['corpus=tsv', 'corpus.name=mine', 'pair=en-de', 'tokenizer=bpe', 'seed=2']" in answer(german)
    assert "2 shardings; say which:" in answer(german, french) and "tokenizer=bpe seed=2" in answer(german, french)
    assert "no shards in" in answer()


def test_a_job_runs_the_words_that_were_planned(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its home may have got other shardings since."""
    sharding(home, "mine-en-fr-bpe", "en-fr")
    sharding(home, "mine-en-de-bpe", "en-de")
    ran: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(cli, "run_verb", lambda verb, words: ran.append((verb, list(words))) or compose.OK)
    assert confined.main(["train", "train.max_steps=1"]) == compose.OK
    assert confined.main(["shard"]) == compose.OK
    assert ran == [("train", ["train.max_steps=1"]), ("shard", [])]
    assert cli.main(["train", "train.max_steps=1"]) == compose.USER_MISTAKE
