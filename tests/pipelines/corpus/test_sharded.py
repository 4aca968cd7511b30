"""A training's record of its corpus is what the shards say, and a key that contradicts them is refused by name."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dragoman.conf import compose
from dragoman.conf.again import remembered
from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import Manifest
from dragoman.pipelines import shard, train
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import shard_command, training_file
from dragoman.pipelines.settle import settle
from dragoman.pipelines.tasks.run import Run

BY_SHARDS = partial(settle, "promote")  # what the shards alone settle
OTHERS = ["corpus.name=mine", "tokenizer.vocabulary=300", "corpus.clean.max_ratio=3.5"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of a corpus that differs from the defaults, in a folder that does not follow the pattern of names."""
    home = tmp_path_factory.mktemp("home")
    words = [f"paths.root={home}", f"paths.shards={home}/there", "corpus=everyday", "corpus.pairs=400"]
    words += ["pair=de-en", *OTHERS]
    config = compose.typed(Config, compose.values([*words, "cluster.backend=local"]))
    return shard.shard(config).directory


def test_what_nobody_chose_is_what_the_shards_say(shards: Path) -> None:
    values = compose.values([f"paths.shards={shards}"], settle=BY_SHARDS)
    assert values["pair"] == "de-en"
    assert values["corpus"]["clean"]["max_ratio"] == 3.5
    assert (values["corpus"]["pairs"], values["tokenizer"]["vocabulary"]) == (400, 300)
    assert values["paths"]["shards"] == str(shards)
    # and so are the names that are made of it
    assert values["name"] == "mine-de-en-transformer_modern"
    assert values["registry"]["name"] == "mine-de-en"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["pair=de-en", *OTHERS],
        ["corpus=everyday", "corpus.name=mine", "tokenizer=bpe"],
        ["experiment=demo", "corpus=everyday", "tokenizer.vocabulary=300", "corpus.name=mine"],
        ["corpus.root=/anywhere", "shards.verify=true", "seed=7"],
    ],
)
def test_keys_that_agree_or_are_of_the_training_pass(shards: Path, words: list[str]) -> None:
    values = compose.values([f"paths.shards={shards}", *words], settle=BY_SHARDS)
    assert values["tokenizer"]["vocabulary"] == 300


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tokenizer.vocabulary=8000"], r"tokenizer\.vocabulary=8000: the shards in .* were made with 300"),
        (["++corpus.clean.max_ratio=4.0"], r"corpus\.clean\.max_ratio=4\.0: .*made with 3\.5"),
        (["corpus=moses"], r"corpus\.format=moses: .*made with everyday"),
        (["corpus=multi30k", "corpus.root=x"], r"corpus\.(name=multi30k|format=moses): .*made with"),
        (["tokenizer=words"], r"tokenizer\.(name|type)=words: .*made with bpe"),
        (["experiment=demo"], r"corpus\.name=everyday: .*made with mine"),
        (["experiment=demo", "corpus=everyday", "corpus.name=mine"], r"tokenizer\.vocabulary=8000: .*made with 300"),
        (["shards.chunk_records=7"], r"shards\.chunk_records=7: .*made with 4096"),
    ],
)
def test_a_contradiction_is_refused_by_name(shards: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        compose.values([f"paths.shards={shards}", *words], settle=BY_SHARDS)


def test_train_refuses_it_before_anything_is_made(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [f"paths.root={shards.parent}", f"paths.shards={shards}", "cluster.backend=local"]
    assert train.main([*places, "name=refused", "corpus.pairs=500"]) == 2
    assert "corpus.pairs=500: the shards in" in capsys.readouterr().err
    assert not (shards.parent / "runs" / "refused").exists()


def test_the_run_records_what_the_shards_say(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[dict[str, Any]] = []

    def record_start(config: Config, run: Run, values: dict[str, Any]) -> None:
        recorded.append(values)
        raise UserError("enough")

    monkeypatch.setattr("dragoman.pipelines.tasks.launch.record_start", record_start)
    places = [f"paths.root={tmp_path}", f"paths.shards={shards}", "cluster.backend=local"]
    assert train.main([*places, "model.width=32", "model.feed_forward=32", "loader.lanes=1"]) == 2
    assert recorded[0]["corpus"]["name"] == "mine"
    assert recorded[0]["tokenizer"]["vocabulary"] == 300


def test_the_command_for_other_shards_names_the_corpus_of_the_file() -> None:
    made_of = SimpleNamespace(sources=[{"name": "pairs.tsv", "split": "train"}], config={"corpus": {"format": "tsv"}})
    manifest = cast(Manifest, made_of)
    file = training_file(manifest, None)
    with remembered(["paths.shards=x"]):
        assert shard_command(file=file) == "dragoman shard paths.shards=x corpus=tsv corpus.train.file=pairs.tsv"
    with remembered(["corpus=mine", "paths.shards=x"]):
        assert shard_command(file=file) == "dragoman shard corpus=mine paths.shards=x corpus.train.file=pairs.tsv"


@pytest.mark.parametrize("key", ["train.file", "valid.source", "gate.target"])
def test_the_built_in_sentences_read_no_files(key: str, tmp_path: Path) -> None:
    words = [f"paths.root={tmp_path}", "corpus=everyday", f"corpus.{key}=pairs.tsv"]
    with pytest.raises(UserError, match=rf"corpus\.{key}=pairs\.tsv: the built-in corpus reads no files"):
        shard.shard(compose.typed(Config, compose.values(words)))


@pytest.fixture(scope="module")
def of_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(shards, the folder of the two files that they were made of)."""
    home = tmp_path_factory.mktemp("files")
    for side, word in (("en", "a dog"), ("de", "ein Hund")):
        (home / f"A.{side}").write_text("".join(f"{word} {'x' * n}\n" for n in range(1, 200)), encoding="utf-8")
    files = [f"corpus.train.source={home}/A.en", f"corpus.train.target={home}/A.de"]
    words = [f"paths.root={home}", "corpus=moses", "corpus.name=two", "tokenizer=words", "cluster.backend=local"]
    return shard.shard(compose.typed(Config, compose.values([*words, *files]))).directory, home


@pytest.mark.parametrize(
    "words",
    [
        ["corpus.train.source={}/A.en", "corpus.train.target='{}/A.{{target}}'"],
        ["corpus.root={}", "corpus.train.source=A.en"],
        ["corpus.train.source={}/copy"],
        ["corpus.train.source=/elsewhere/A.en"],  # where the training runs it need not lie
        ["corpus.train.source=s3://bucket/A.en", "corpus.test.source=null"],
    ],
)
def test_files_that_the_shards_were_made_of_may_be_given(of_files: tuple[Path, Path], words: list[str]) -> None:
    shards, home = of_files
    (home / "copy").write_bytes((home / "A.en").read_bytes())
    compose.values([f"paths.shards={shards}", "corpus=moses", *(word.format(home) for word in words)], settle=BY_SHARDS)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "corpus.train.source={}/B.en",
            r"source=.*/B\.en: the train split of the shards was made of A\.en, A\.de\. Leave",
        ),
        ("corpus.train.source=s3://me:secret@bucket/B.en", r"source=s3://\*\*\*@bucket/B\.en: .*made of A\.en"),
        ("corpus.train.source={}/other/A.en", r"made of A\.en, A\.de, of another size than yours"),
        (
            "corpus.train.source={}/same-size",
            r"same-size: the train split of the shards was made of A\.en, A\.de\. Leave",
        ),
        ("corpus.test.source={}/A.en", r"corpus\.test\.source=.*: the test split .* made of no file of its own"),
    ],
)
def test_other_files_are_refused_by_name(of_files: tuple[Path, Path], word: str, message: str) -> None:
    shards, home = of_files
    (home / "other").mkdir(exist_ok=True)
    (home / "other" / "A.en").write_text("another\n")
    (home / "same-size").write_text("x" * (home / "A.en").stat().st_size)
    with pytest.raises(UserError, match=message):
        compose.values([f"paths.shards={shards}", "corpus=moses", word.format(home)], settle=BY_SHARDS)
