"""--config FILE, --config-dir FOLDER and DRAGOMAN_CONF: a user's own settings, for every verb."""

import logging
import os
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.conf import compose, groups
from dragoman.conf.own import as_words, read_settings
from dragoman.pipelines.config import Config
from dragoman.services import cli


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(groups.VARIABLE, raising=False)
    monkeypatch.setattr(logging, "raiseExceptions", False)  # a handler of an earlier test writes to what is closed
    return tmp_path


def composed(*words: str) -> dict[str, Any]:
    return compose.values(cli.with_own_settings(words))


def test_a_file_stands_before_the_command_line_which_wins(folder: Path) -> None:
    (folder / "mine.yaml").write_text(
        "defaults:\n  - override /model: transformer_small\n"
        "model: {dropout: 0.3}\ntrain:\n  max_steps: 40\n  optimizer: {lr: 1e-3}\n"
        "corpus.name: theirs\nname: ${corpus.name}-it's\npair: en-no\n"
    )
    found = composed("train.max_steps=41", "--config", "mine.yaml")
    assert (found["train"]["max_steps"], found["train"]["optimizer"]["lr"]) == (41, 0.001)
    assert (found["model"]["name"], found["model"]["dropout"], found["pair"]) == ("transformer_small", 0.3, "en-no")
    assert found["name"] == "theirs-it's"
    assert composed("model=rnnenc", "--config=mine.yaml")["model"]["name"] == "rnnenc"


def test_a_verbs_own_words_stay_in_front(folder: Path) -> None:
    (folder / "mine.yaml").write_text("seed: 2\n")
    assert cli.with_own_settings(["RUN", "--config", "mine.yaml", "seed=3"]) == ["RUN", "seed=3"]
    assert cli.with_own_settings(["train", "--config", "mine.yaml", "pair=en-fr"]) == ["train", "seed=2", "pair=en-fr"]


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="$"), max_size=12)


@settings(deadline=None, max_examples=8)
@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_any_text_and_any_list_arrive_as_they_are(text: str, texts: list[str]) -> None:
    found = compose.values(as_words({"promote.reason": text, "models": texts}, "here"))
    assert (found["promote"]["reason"], found["models"]) == (text, texts)


def test_a_map_of_ones_own_keys_arrives_as_it_is(folder: Path) -> None:
    fields = {"source": "text.en", "hot dog": "Würstchen, heiß", "für: x": "a 'b' {c}"}
    settings = {"loader": {"mix": {"weights": {"news": 2, "web": 1.5}}}, "corpus": {"languages": fields}}
    (folder / "mine.yaml").write_text(yaml.safe_dump(settings))
    values = composed("--config", "mine.yaml")
    assert values["loader"]["mix"]["weights"] == {"news": 2, "web": 1.5}
    assert values["corpus"]["languages"] == fields


def test_an_experiments_file_is_one_too() -> None:
    found = read_settings(str(groups.FOLDER / "experiment" / "demo.yaml"))
    expected = compose.values(["experiment=demo"])
    assert compose.values(found) == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "--config mine.yaml: No such file or directory"),
        (b"a: [b\n", "is not YAML"),
        (b"\xff\xfe\xff", "not a YAML file of settings"),
        (b"- a\n- b\n", "must hold settings"),
        (b"just text\n", "must hold settings"),
        (b"2: 3\n", "'2' is no key"),
        (b"defaults:\n  - model: rnnenc\n", "write `- override /GROUP: CHOICE`"),
        (b"train: {max_stps: 3}\n", "Did you mean 'max_steps'"),
        (b"model: nosuch\n", "model: 'nosuch' is not known"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(
    content: bytes | None, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (folder / "mine.yaml").write_bytes(content)
    assert cli.main(["shard", "--config", "mine.yaml"]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1, told


def own_choice(folder: Path, text: str = "# @package _global_\nseed: 5\n") -> Path:
    own = folder / "own" / "experiment"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text(text)
    return own.parent


def test_choices_of_ones_own_folder_stand_beside_ours(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = own_choice(folder)
    assert cli.main(["train", "experiment=mine"]) == 2
    assert "'mine' is not known" in capsys.readouterr().err
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(groups.VARIABLE, "own")
        assert composed("experiment=mine")["seed"] == 5
        assert {"mine", "demo"} <= set(groups.choices("experiment"))
    assert cli.main(["train", "--config-dir", str(own), "experiment=mine"]) == 2
    assert f"dragoman shard --config-dir {own} experiment=mine" in capsys.readouterr().err
    assert groups.VARIABLE not in os.environ


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda own: None, "not a folder"),
        (
            lambda own: (own / "model").mkdir(parents=True) or (own / "model" / "rnnenc.yaml").touch(),
            "one of Dragoman's",
        ),
        (lambda own: own_choice(own.parent, "a: [b\n"), "not YAML"),
    ],
)
def test_a_bad_folder_is_one_line_and_exit_code_2(
    make: Callable[[Path], object], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(folder / "own")
    assert cli.main(["shard", "--config-dir", "own", "experiment=mine"]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1, told
    assert cli.main(["shard", "--config-dir"]) == 2


def test_a_text_that_looks_like_a_number_stays_as_typed(folder: Path) -> None:
    texts = ["7e1234567", "1e5", "0123", "010", "1_000"]
    keys = ["name", *(f"corpus.{split}.{side}" for split in ("train", "valid") for side in ("source", "target"))]
    pairs = [*zip(keys, texts, strict=True), ("models", f"[{','.join(texts)}]")]
    (folder / "mine.yaml").write_text("".join(f"{key}: {value}\n" for key, value in pairs))
    for words in ([f"{key}={value}" for key, value in pairs], read_settings("mine.yaml")):
        config = compose.typed(Config, compose.values(words, Config))
        assert [attrgetter(key)(config) for key in keys] == config.models == texts


def test_a_number_has_one_grammar(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.yaml").write_text("train: {max_steps: 010}\n")
    for words in (["train.max_steps=010"], ["--config", "mine.yaml"]):
        assert cli.main(["train", "corpus=everyday", *words]) == 2
        assert "train.max_steps: expected a whole number, got '010'" in capsys.readouterr().err
