"""Settings that nobody chose fit the number of pairs; what the user or an experiment has stays."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dragoman.conf import compose
from dragoman.model.shards.manifest import read_manifest
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sizes import fitting
from dragoman.pipelines.entries import main
from dragoman.pipelines.settle import OF_NETWORK, OF_OPTIMIZER, SHORT_WARMUP, TOKENS_A_PAIR, as_fitting, settle
from dragoman.pipelines.shard import shard

OF_DATA = ("loader.batch_tokens", "train.max_steps", "train.optimizer.warmup_steps")


def test_values_lie_between_the_rows_and_are_those_of_the_last_row_beyond_it() -> None:
    rows = [fitting(pairs) for pairs in (50, 200, 1_000, 10_000, 30_000, 100_000, 1_000_000, 10**8)]
    assert rows[0] == rows[1]
    assert rows[-1] == rows[-2]
    for key in ("tokenizer.vocabulary", "loader.batch_tokens", "train.max_steps", "train.optimizer.warmup_steps"):
        values = [row[key] for row in rows]
        assert values == sorted(values), key
        assert all(type(value) is int for value in values)
    defaults = compose.values([])
    for key, value in rows[-1].items():  # more pairs than anybody has tried: the settings as they are written
        if key not in OF_NETWORK | OF_OPTIMIZER:
            assert at(defaults, key) == value, key
    assert set(rows[-1]) >= OF_NETWORK | OF_OPTIMIZER


def at(values: Any, key: str) -> Any:
    for name in key.split("."):
        values = values[name]
    return values


def write_pairs(path: Path, number: int) -> Path:
    words = [a + b for a in "abcdefghij" for b in "abcdefghij"]
    lines = (f"{words[row % 97]} {words[row % 89]} {row}\t{words[row % 83]} {row}\n" for row in range(number))
    path.write_text("".join(lines), encoding="utf-8")
    return path


def sharded(tmp_path: Path, *words: str, number: int = 400) -> list[str]:
    file = write_pairs(tmp_path / "pairs.tsv", number)
    given = ["corpus=tsv", f"corpus.train.file={file}", f"paths.root={tmp_path}", "cluster.backend=local",
             "tracking.offline=true", "corpus.check=off", *words]  # fmt: skip
    shard(compose.typed(Config, compose.values(given, settle=partial(settle, "shard"))))
    return given


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The settings of a corpus of 400 pairs, in shards, for tests that start no run on it."""
    return sharded(tmp_path_factory.mktemp("home"))


def training(words: Sequence[str]) -> dict[str, Any]:
    return compose.values(words, settle=partial(settle, "train"))


def test_a_training_takes_what_fits_its_pairs_unless_somebody_chose(words: list[str]) -> None:
    manifest = read_manifest(Path(training(words)["paths"]["shards"]))
    fit = fitting(manifest.splits["train"].records)
    warmup = "train.optimizer.warmup_steps"
    assert manifest.config["tokenizer"]["vocabulary"] == fitting(400)["tokenizer.vocabulary"]
    values = training(words)
    modern = fit | {warmup: SHORT_WARMUP}
    assert all(at(values, key) == modern[key] for key in fit if key != "tokenizer.vocabulary")
    assert at(training([*words, "train.optimizer.kind=adam"]), warmup) == fit[warmup] > SHORT_WARMUP
    own = training([*words, "train.max_steps=7", "model.dropout=0.05"])
    assert (own["train"]["max_steps"], own["model"]["dropout"]) == (7, 0.05)
    assert own["loader"]["batch_tokens"] == fit["loader.batch_tokens"]
    defaults = compose.values([])
    for other in (["model=transformer_base"], ["train.init_from=broad"]):  # rate and dropout were not chosen for those
        values = training([*words, *other])
        assert all(at(values, key) == fit[key] for key in OF_DATA)
        assert values["train"]["optimizer"]["lr"] == defaults["train"]["optimizer"]["lr"]
        assert values["train"]["optimizer"]["kind"] == defaults["train"]["optimizer"]["kind"]
    assert as_fitting(compose.values([*words, "experiment=demo"]), {"experiment"}) == {}
    denoising = [*words, "loader.denoise=infilling"]
    assert training(denoising)["train"] == defaults["train"]
    short = training([*denoising, "train.max_steps=500"])
    assert short["train"]["optimizer"]["warmup_steps"] == 50  # of every network a tenth at most


@pytest.mark.parametrize("network", ["gpt_tiny", "rnnlm_lstm", "statelm_linear", "bert_tiny"])
def test_a_network_of_texts_takes_what_fits_their_tokens(words: list[str], network: str) -> None:
    """The default of pairs by the million reads a short text thousands of times; its warm-up never ends."""
    given = [*words, f"model={network}", "loader.side=target"]
    values = training(given)
    tokens = read_manifest(Path(values["paths"]["shards"])).splits["train"].target_tokens
    fit = fitting(tokens // TOKENS_A_PAIR)
    keys = [*OF_DATA, *OF_OPTIMIZER, "train.evaluate_every", "train.checkpoint_every"]
    expected = {key: fit[key] for key in keys}
    expected |= {"train.loss.label_smoothing": 0.0, "train.optimizer.warmup_steps": SHORT_WARMUP}
    assert {key: at(values, key) for key in expected} == expected
    wide = training([*given, "loader.context_length=2000", "train.loss.label_smoothing=0.2"])
    assert wide["loader"]["batch_tokens"] == 2000  # a row at least
    assert wide["train"]["loss"]["label_smoothing"] == 0.2


def test_a_few_minutes_train_a_shallow_encoder_on_small_batches(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.pipelines.settle.fitting", lambda _: fitting(1_000_000))  # not that many pairs here
    values = [training([*words, f"train.max_minutes={minutes}"]) for minutes in (0, 5, 60)]
    assert [each["model"]["encoder_layers"] for each in values] == [6, 2, 6]
    assert [each["loader"]["batch_tokens"] for each in values] == [4096, 1024, 4096]
    chosen = training([*words, "train.max_minutes=5", "model.encoder_layers=4"])
    assert chosen["model"]["encoder_layers"] == 4


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("train.max_steps=abc", "train.max_steps: expected a whole number, got 'abc'"),
        ("pair=null", "pair: expected text, got None"),
    ],
)
def test_a_value_of_a_wrong_type_is_named_although_it_is_read_first(
    words: list[str], capsys: pytest.CaptureFixture[str], word: str, answer: str
) -> None:
    assert main(["train", *words, word]) == 2
    assert answer in capsys.readouterr().err


def test_a_run_that_goes_on_keeps_what_it_began_with(tmp_path: Path) -> None:
    """With a higher limit too: the warm-up, which is a part of the steps, stays."""
    words = sharded(tmp_path)
    run = tmp_path / "runs" / training(words)["name"]
    run.mkdir(parents=True)
    record = {
        "train": {"optimizer": {"warmup_steps": 3}},
        "plans": [{"from_step": 0, "max_steps": 44, "schedule_steps": 44}],
    }
    (run / "run.json").write_text(json.dumps(record))
    for more, steps in (([], 44), (["train.max_steps=50"], 50)):
        train = training([*words, *more])["train"]
        assert (train["max_steps"], train["optimizer"]["warmup_steps"]) == (steps, 3)


def test_the_steps_of_a_head_fit_its_texts(tmp_path: Path) -> None:
    """The default of pairs by the million reads 200 texts thousands of times."""
    lines = (f"{row} is {'even' if row % 2 == 0 else 'odd'}\t{'ab'[row % 2]}\n" for row in range(200))
    file = tmp_path / "texts.tsv"
    file.write_text("".join(lines), encoding="utf-8")
    words = sharded(tmp_path, "corpus=labelled", "pair=en", f"corpus.train.file={file}", "model=classifier_recurrent")
    values, defaults = training(words), compose.values([])
    fit = fitting(200)
    for key in ("train.max_steps", "train.optimizer.warmup_steps", "train.evaluate_every", "train.checkpoint_every"):
        assert at(values, key) == fit[key], key
    assert values["loader"]["batch_tokens"] == defaults["loader"]["batch_tokens"]  # a text may be long
    assert values["train"]["optimizer"]["lr"] == defaults["train"]["optimizer"]["lr"]


@pytest.mark.parametrize(
    "chosen", ["tokenizer.vocabulary=700", "tokenizer=characters", "tokenizer=unigram tokenizer.same_as=x"]
)
def test_a_chosen_vocabulary_stays(tmp_path: Path, chosen: str) -> None:
    values = compose.values(["corpus=tsv", *chosen.split()], settle=partial(settle, "shard"))
    assert values["tokenizer"] == compose.values(chosen.split())["tokenizer"]


def test_a_writing_of_many_characters_has_pieces_left_for_words(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    lines = (f"{chr(0x4E00 + row)} 你\t{chr(0x5000 + row)} 好\n" for row in range(900))
    file.write_text("".join(lines), encoding="utf-8")
    sharded_words = ["corpus=tsv", f"corpus.train.file={file}", f"paths.root={tmp_path}", "cluster.backend=local",
                     "tracking.offline=true", "corpus.check=off", "pair=zh-ja"]  # fmt: skip
    shard(compose.typed(Config, compose.values(sharded_words, settle=partial(settle, "shard"))))
    assert read_manifest(Path(training(sharded_words)["paths"]["shards"])).config["tokenizer"]["vocabulary"] > 2_700
