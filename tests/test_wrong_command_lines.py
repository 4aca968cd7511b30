"""Wrong command lines and their answers: one line that names the word, and exit code 2 (the user's) or 1."""

import errno
import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.conf import again, compose, endings, groups
from dragoman.conf.mistakes import other_names
from dragoman.conf.words import chosen_keys, is_setting
from dragoman.model.schema import flat
from dragoman.pipelines import entries
from dragoman.pipelines.config import Config
from dragoman.services import cli

REPOSITORY = Path(__file__).resolve().parents[1]
WRONG: list[tuple[str, int, str]] = [  # what follows `dragoman`, the exit code, what the answer says at least
    # verbs
    ("trian", 2, "unknown verb: 'trian' is not known. Did you mean 'train'?"),
    ("train foo", 2, "foo: settings are written KEY=VALUE"),
    ("train pyproject.toml", 2, "pyproject.toml: is a file, and settings are written KEY=VALUE; write corpus=tsv"),
    ("shard README.md LICENSE", 2, "write corpus=moses corpus.train.source=README.md corpus.train.target=LICENSE"),
    ("train docker-compose.yml", 2, "write --config docker-compose.yml"),
    ("train train.max_steps:5", 2, "write train.max_steps=5"),
    # keys
    ("train =5", 2, "=5: no key stands before the equals sign"),
    ("train train..max_steps=3", 2, "'train..max_steps' is no key"),
    ("train train.max_stps=10", 2, "train: unknown key: 'max_stps' is not known. Did you mean 'max_steps'?"),
    ("train decode.beam==5", 2, "one equals sign stands between key and value, decode.beam=5"),
    ("train hydra.run.dir=x", 2, "hydra.run.dir=x: Hydra's own settings have no effect here"),
    ("train '~train.nothing'", 2, "'train.nothing' does not exist"),
    ("train +experiment=demo", 2, "a choice is written without a plus, experiment=demo"),
    ("train experiment=wikitext_bert model=rnnenc", 2, "experiment=wikitext_bert sets model.norm, which this"),
    # other tools' words
    ("train lr=0.001", 2, "lr: no such key; write train.optimizer.lr=0.001"),
    ("train train.batch_size=64", 2, "train.batch_size: no such key; write loader.batch_tokens=VALUE (in tokens)"),
    ("train target=fr", 2, "target: no such key; write pair=SOURCE-fr"),
    ("translate --to de hello", 2, "--to: no such option; write translate.to=de"),
    ("train --learning-rate=0.1", 2, "--learning-rate: no such option; write train.optimizer.lr=0.1"),
    # values
    ("train train.optimizer.lr=1,2", 2, "train.optimizer.lr=1,2: a list stands in brackets"),
    ("shard 'corpus.train.source=a b,c.en'", 2, "text with a comma in quotes, 'corpus.train.source=\"a b,c.en\"'"),
    ("train train.optimizer.lr=0,001", 2, "a fraction has a point, train.optimizer.lr=0.001"),
    ("shard corpus.columns=source,target", 2, "'corpus.columns=[source,target]'"),
    ("shard 'corpus.train.source=[a,b'", 2, "[ is not closed by ]"),
    ("train train.max_steps=soon", 2, "train.max_steps: expected a whole number, got 'soon'"),
    ("train train.max_steps=???", 2, "train.max_steps=???: has no value; give one"),
    ("train 'train.max_steps=range(1,3)'", 2, "several values; `dragoman sweep` tries several"),
    ("train name=null", 2, "name: expected text, got None"),
    ("train train.precision=fp8", 2, "train.precision: 'fp8' is not known. Choices: auto, bf16, fp16, fp32"),
    ("train model=transfomer_tiny", 2, "model: 'transfomer_tiny' is not known. Did you mean 'transformer_tiny'?"),
    ("train corpus@x=moses", 2, "a choice is written corpus=CHOICE"),
    ("train 'train.max_steps=${nokey}'", 2, "train.max_steps: Interpolation key 'nokey' not found"),
    ("train pair=de_fr", 2, "pair=de_fr: must name two languages, source first, such as pair=de-fr"),
    ("train paths.root=", 2, "paths.root is empty; name a folder, or leave it out"),
    ("train corpus=everyday cluster.device=cuda", 2, "cluster.device=cuda: torch sees no GPU here"),
    # options
    ("train --cfg xyz", 2, "--cfg: invalid choice: 'xyz'"),
    ("train --resolve", 2, "--resolve: says how --cfg job prints the configuration; add --cfg job"),
    ("serve -p 5000", 2, "-p: no such option; write serve.port=5000"),
    ("train --help-al", 2, "--help-al: no such option; write --help-all"),
    ("train --config-dir /no/such", 2, "DRAGOMAN_CONF=/no/such: not a folder"),
    # what is not there
    (
        "train",
        2,
        "no shards in HOME/shards; make some: dragoman shard corpus=tsv corpus.name=mine pair=en-de corpus.train.file=",
    ),
    ("train corpus=everyday pair=en-fr", 2, "everyday-en-fr-bpe, and pair=en-fr: corpus=everyday has English"),
    ("shard corpus.train.file=p.tsv", 2, "corpus.train.target, or write corpus=tsv"),
    ("shard corpus.encoding=utf8bom", 2, "=utf8bom: expected one that holds ASCII as it is, such as utf-8"),
    ("generate --prompt 'The king'", 2, "--prompt: no such option; write 'generate.prompt=The king'"),
    ("export huggingface a b", 2, "export huggingface: writes one model; b is too much"),
    ("verify nosuch", 2, "no run in HOME/runs: 'nosuch' is not known. Choices: none"),
    ("verify", 2, "say which run, dragoman verify RUN; those in HOME/runs: none"),
    ("embed hello", 2, "no model in HOME/runs nor in the registry: train one"),
    ("translate pyproject.toml", 2, "pyproject.toml: is a file; input=pyproject.toml reads it"),
    ("translate hello input=x", 2, "input=x: give a file or a text, not both"),
    ("jobs", 2, "no job service runs here. Start one with `dragoman up`"),
]


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new user's first folder."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))  # nobody types


@pytest.mark.parametrize(("line", "code", "words"), WRONG, ids=[line for line, *_ in WRONG])
def test_a_wrong_command_line_is_answered_in_a_line(
    line: str, code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "cuda" in line:
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
    assert cli.main(shlex.split(line)) == code
    answer = capsys.readouterr().err
    assert words.replace("HOME", str(tmp_path)) in answer
    assert len(answer.splitlines()) == 1, answer
    assert answer.startswith("dragoman")


def test_each_key_that_is_suggested_exists_and_each_value_fits() -> None:
    meant = sorted({one for settings in other_names().values() for one in settings})
    keys = {key for root in groups.roots() for key in groups.written_defaults(root)}
    keys |= {f"model.{key}" for key, _ in flat(groups.merge_choice("model", "skipgram"))}
    assert [one for one in meant if "=" not in one and one not in keys] == []
    for setting in (one for one in meant if "=" in one):
        compose.typed(Config, compose.values([setting], Config))


@pytest.mark.parametrize(
    ("verb", "words", "after"),
    [
        ("shard", ["corpus=tsv", "corpus.train.file=a"], "dragoman train corpus=tsv"),
        ("shard", ["corpus=tsv", "corpus.name=b", "shards.keep_text=true"], "dragoman train corpus=tsv corpus.name=b"),
        ("shard", ["corpus=text", "pair=hi", "tokenizer=vocabulary"], "model=skipgram registry=vectors"),
        ("shard", ["corpus=text", "pair=en"], "dragoman train corpus=text pair=en model=gpt_modern registry=language"),
        ("train", ["paths.root=a b"], "dragoman promote 'paths.root=a b'"),
        (
            "train",
            ["model=transformer_tiny", "train.max_steps=9", "name=a", "pair=en-fr"],
            "dragoman promote pair=en-fr",
        ),
        ("train", ["registry.register=false"], None),
        ("evaluate", [], "dragoman promote"),
        ("evaluate", ["bundle=x"], None),
        ("promote", [], None),
    ],
)
def test_the_next_command_is_one_that_can_be_run(verb: str, words: list[str], after: str | None) -> None:
    config = compose.typed(Config, compose.values(words))
    with again.remembered(words):
        said = entries.next_command(verb, config, chosen_keys(words))
    if after is None or said is None:
        assert said == after
        return
    assert said.endswith(after)
    _, following, *settings = shlex.split(said)
    assert following in cli.VERBS
    compose.typed(Config, compose.values(settings))


def test_plain_text_needs_no_quotes() -> None:
    texts = ["файл.en", "a@b#c.en", "s3://bucket/x?y=z", "a;b", "~/my texts/x y.en", "a=b", "a&b|c", "ĳ%20x", "x'y"]
    keys = [(split, part) for split in ("train", "valid", "test") for part in ("source", "target", "file")]
    words = [f"corpus.{split}.{part}={text}" for (split, part), text in zip(keys, texts, strict=True)]
    corpus = compose.values([*words, "corpus.root=\udcff"])["corpus"]
    assert [corpus[split][part] for split, part in keys] == texts and corpus["root"] == "\udcff"


def test_text_with_an_equals_sign_is_no_setting() -> None:
    assert is_setting("train.max_steps=5") and is_setting("~train.x") and is_setting("+a=1") and is_setting("models=")
    assert not any(is_setting(text) for text in ("a cat = an animal", "x", "1=1", "What?", "hello world"))


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = ("DRAGOMAN_HOME", "DRAGOMAN_CACHE", "MLFLOW_TRACKING_URI", "RAY_ADDRESS")
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    without = compose.values(["cluster=ray"])
    for name in variables:
        monkeypatch.setenv(name, "")
    assert compose.values(["cluster=ray"]) == without
    assert all(value not in ("", "/") for value in without["paths"].values())


@pytest.mark.parametrize(
    ("number", "name", "code", "said"),
    [
        (errno.ENOSPC, "f", 69, "the disk is full at f; free some space"),
        (errno.EACCES, "f", 2, "f: Permission denied; give yourself the permission"),
        (errno.ENOTDIR, "f", 2, "a part of this path is a file, not a folder"),
        (errno.EMFILE, "f", 69, "ulimit -n"),
        (errno.ECONNREFUSED, None, 69, "Connection refused"),
    ],
)
def test_an_error_of_the_system_is_a_line(
    number: int, name: str | None, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_: Config) -> None:
        raise OSError(number, os.strerror(number), name)

    assert compose.run(work, Config, [], "x") == code
    answer = capsys.readouterr().err
    assert said in answer and len(answer.splitlines()) == 1


def test_a_pipe_to_a_server_that_breaks_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with Path(os.devnull).open("w") as out:
        before, sys.stdout = sys.stdout, out
        try:
            assert endings.end("x", BrokenPipeError(errno.EPIPE, "Broken pipe")) == 69
        finally:
            sys.stdout = before
    assert capsys.readouterr().err == "dragoman x: Broken pipe\n"


@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        ("{} runs > /dev/full", 69, "dragoman runs: the disk is full; free some space, then start again: it goes on\n"),
        ("{} runs >&-", 0, ""),
        ("{} --help | true", 0, ""),
        ("{} translate <&-", 2, "input: standard input is closed; name a file"),
    ],
)
def test_what_the_shell_does_to_the_streams_leaves_no_trace(shell: str, code: int, said: str) -> None:
    dragoman = f"{shlex.quote(sys.executable)} -m dragoman.services.cli"
    done = subprocess.run(shell.format(dragoman), shell=True, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert said in done.stderr if said else done.stderr == ""
