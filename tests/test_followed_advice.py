"""Advice is followed: a message is provoked, what it says is done as it is printed, and the trouble is gone.

Each case is a command line and a pattern of its message; the pattern's groups are what the reader does:

- `settings`: they are put into the line, each in the place of its key;
- `out`: the setting that is to be left out;
- `command`: it is run first; what it puts into a folder of its own (`paths.shards=...`) is used by the line then.

Then the line is run again, and neither fails nor says the same.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import ANY

import pytest
import torch

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.services import cli
from dragoman.services.jobs.planning.plan import make_plan

VERBS = {"sees": "sieht", "hears": "hoert", "likes": "mag", "calls": "ruft", "meets": "trifft"}
NOUNS = {"cat": "Katze", "dog": "Hund", "bird": "Vogel", "cow": "Kuh", "house": "Haus", "tree": "Baum"}
NAMES = ("anna", "ben", "carl", "dora", "emil")
PAIRS = [
    (f"{name} {verb} the {noun} .", f"{name.title()} {VERBS[verb]} {NOUNS[noun]} .")
    for name in NAMES
    for verb in VERBS
    for noun in NOUNS
]
QUICK = "cluster.backend=local tracking.system_metrics=false"
TINY = (
    f"{QUICK} model.width=16 model.heads=2 model.feed_forward=16 model.encoder_layers=1 model.decoder_layers=1 "
    "train.max_steps=4 train.checkpoint_every=4 train.evaluate_every=4 train.optimizer.warmup_steps=1 "
    "decode.length_penalty=1.0 evaluate.sentences=10 evaluate.samples=0"
)
TSV = "corpus=tsv corpus.train.file=pairs.tsv tokenizer.vocabulary=100 cluster.backend=local"
TEXT = "corpus=text corpus.train.file=text.txt pair=en cluster.backend=local"
WORDS = f"{TEXT} tokenizer=vocabulary"
TRANSLATE = "translate bundle=home/runs/tiny/bundle"


@dataclass(frozen=True)
class Case:
    line: str
    said: str  # a pattern of the message
    by: str = "run"  # or `check`: rehearsed alone; `plan`: as a submission; `said`: run, and what it says is rehearsed
    put_in: Mapping[str, str] = field(default_factory=dict)  # what the reader writes for a word in capitals
    code: int = 2  # of the line before; 0 for a warning
    also: str = ""  # what else the second line needs


CASES = {
    # shard
    "no file": Case(
        f"shard corpus=tsv paths.shards=given {QUICK}", r"give (?P<settings>\S+=FILE)", put_in={"FILE": "pairs.tsv"}
    ),
    "a bad line": Case(
        f"shard corpus=tsv corpus.train.file=bad.tsv paths.shards=bad {QUICK}", r"(?P<settings>corpus\.on_error=skip)"
    ),
    "fields of JSON": Case(
        f"shard corpus=jsonl corpus.train.file=pairs.jsonl paths.shards=json {QUICK}",
        r"(?P<settings>corpus\.fields='.*?')",
        put_in={"source: NAME": "source: english", "target: NAME": "target: german"},
    ),
    "a small vocabulary": Case(
        f"shard {TSV} tokenizer.vocabulary=12 paths.shards=small {QUICK}", r"needs (?P<settings>tokenizer\.\S+) or more"
    ),
    "shards of another configuration": Case(
        f"shard {TSV} tokenizer.vocabulary=80 {QUICK}", r": (?P<command>dragoman .*)"
    ),
    "texts that nothing is cut from": Case(
        f"shard {TEXT} tokenizer.vocabulary=60 paths.shards=uncut {QUICK}",
        r"next: (?P<command>dragoman .*)",
        "said",
        code=0,
    ),
    # train
    "no shards": Case(f"train {TSV} corpus.name=fresh", r"makes them: (?P<command>dragoman .*)", "check"),
    "another vocabulary": Case(
        f"train {TSV} tokenizer.vocabulary=90", r"make others: (?P<command>dragoman .*)", "check"
    ),
    "no test text": Case(
        "train corpus=text pair=en tokenizer=vocabulary cluster.backend=local model=gpt_modern registry=language "
        "loader.batch_tokens=64 loader.context_length=16",
        r"sets texts aside: (?P<command>dragoman .*)",
        "check",
    ),
    "lanes": Case(
        f"train {TSV} cluster.backend=ray cluster.workers=3 loader.lanes=4", r"(?P<settings>loader\.lanes=0)", "check"
    ),
    "no GPU": Case(
        f"train {TSV} {TINY} name=cpu registry.register=false cluster.device=cuda",
        r"; (?P<settings>cluster\.device=cpu) trains",
    ),
    "a long warm-up": Case(
        f"train {TSV} {TINY} train.max_steps=10 name=warm registry.register=false train.optimizer.warmup_steps=8",
        r"and (?P<settings>train\.optimizer\.warmup_steps=1) would",
        code=0,
        also="name=warmer",
    ),
    # evaluate, promote
    "no versions": Case(f"promote {TSV} registry.name=other", r"registers one: (?P<command>dragoman train .*)", "said"),
    "a long line, left empty": Case(
        f"{TRANSLATE} input=long.en decode.too_long=error translate.protect=false",
        r"(?P<settings>on_error=skip)",
    ),
    "a file's name as a text": Case(
        "translate pairs.tsv bundle=home/runs/tiny/bundle",
        r"(?P<out>pairs\.tsv): is a file; (?P<settings>\S+) reads it",
    ),
    # vectors
    "a word that nobody knows": Case("neighbours zebra query.vectors=words", r"(?P<settings>on_error=skip)"),
    "no vectors": Case(
        "neighbours cat paths.runs=none tracking.uri=sqlite:///none.db",
        r"train some: (?P<command>dragoman .*)",
        "said",
        put_in={"FILE": "text.txt"},
    ),
    # serve, up, submit, sweep
    "no service": Case("jobs", r"`(?P<command>dragoman up)`", "said"),
    "a plan on shards of another kind": Case(f"train {TSV} tokenizer.vocabulary=90", r"Leave (?P<out>\S+) out", "plan"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Small corpora in the working folder; shards of them, a translation model, its champion, and word vectors."""
    work = tmp_path_factory.mktemp("work")
    write_corpora(work)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        patch.setenv("DRAGOMAN_HOME", str(work / "home"))
        for name in ("RAY_ADDRESS", "MLFLOW_TRACKING_URI", "DRAGOMAN_CONF"):
            patch.delenv(name, raising=False)
        for line in (
            f"shard {TSV}",
            f"shard {WORDS}",
            f"train {TSV} {TINY} name=tiny",
            f"promote {TSV} promote.force=true promote.reason=tiny",
            f"train {WORDS} {QUICK} name=words model=tfidf registry=vectors vectors.evaluate.pictures=false",
        ):
            assert cli.main(shlex.split(line)) == 0, line
        yield work / "home"


def write_corpora(folder: Path) -> None:
    lines = ["\t".join(pair) for pair in PAIRS]
    files = {
        "pairs.tsv": lines,
        "bad.tsv": [*lines[:99], "a single column", *lines[99:]],
        "text.txt": [source for source, _ in PAIRS],
        "pairs.jsonl": [json.dumps({"english": source, "german": target}) for source, target in PAIRS],
        "long.en": ["anna sees the cat . " * 300, "ben sees the dog ."],
    }
    for name, content in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")


Answer = tuple[int, str]  # the exit code, and all that was said


@pytest.fixture
def answer(
    home: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Callable[[list[str], str], Answer]:
    """answer(words, by) -> what a command line comes to."""
    caplog.set_level("INFO")

    def of(words: list[str], by: str) -> Answer:
        caplog.clear()
        if by == "plan":
            try:
                make_plan(words[0], words[1:], [home, Path.cwd()], 0.0)
            except UserError as problem:
                return 2, str(problem)
            return 0, ""
        if by == "check":
            with compose.rehearsal():
                code = cli.main(words)
        else:
            code = cli.main(words)
        said = capsys.readouterr()
        return code, "\n".join([*caplog.messages, said.err])

    return of


def apart(said: str) -> tuple[str, str]:
    """Splits what was said into the message and the command that goes on."""
    lines = said.splitlines()
    after = [line.removeprefix("next: ") for line in lines if line.startswith("next: ")]
    return "\n".join(line for line in lines if not line.startswith("next: ")), "".join(after)


def with_settings(words: list[str], settings: list[str], out: str = "") -> list[str]:
    """The words with `settings` in the places of theirs, and without the setting or word `out`."""
    changed = {word.partition("=")[0] for word in settings} | {out}
    return [word for word in words if word.partition("=")[0] not in changed] + settings


@pytest.mark.parametrize("name", CASES)
def test_what_a_message_advises_ends_the_trouble(name: str, answer: Callable[[list[str], str], Answer]) -> None:
    case = CASES[name]
    if "cuda" in case.line and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    words = shlex.split(case.line)
    code, said = answer(words, "run" if case.by == "said" else case.by)
    assert code == case.code, said
    found = re.search(case.said, said, re.MULTILINE)
    assert found is not None, said
    given = found.groupdict()
    settings = given.get("settings") or ""
    for placeholder, value in case.put_in.items():
        settings = settings.replace(placeholder, value)
        given["command"] = (given.get("command") or "").replace(placeholder, value)
    changes = [*shlex.split(settings), *shlex.split(case.also)]
    if given.get("command"):
        program, *command = shlex.split(given["command"])
        assert program == "dragoman"
        done, told = answer(command, "check" if case.by in ("said", "plan") else "run")
        assert done == 0, told
        if after := apart(told)[1]:
            assert answer(shlex.split(after)[1:], "check") == (0, ANY), after
        changes += [word for word in command if word.startswith("paths.shards=")]
        if case.by in ("said", "plan"):
            return  # it was rehearsed
    code, said = answer(with_settings(words, changes, given.get("out") or ""), case.by)
    assert code == 0, said
    assert not re.search(case.said, apart(said)[0], re.MULTILINE), said
