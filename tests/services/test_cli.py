"""The command line: verbs, help, exit codes."""

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dragoman.conf import compose
from dragoman.conf.words import is_setting
from dragoman.model.runs.paths import RECORD
from dragoman.services import cli
from dragoman.services.help import EVERYDAY, EXAMPLES, GROUPS, general_help, verb_help
from dragoman.services.verbs import take_json

REPOSITORY = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "ray", "mlflow", "hydra", "omegaconf", "numpy", "fastapi")


def python(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.parametrize("words", ["['train', '--help']", "['--version']"])
def test_help_and_version_import_nothing_heavy(words: str) -> None:
    script = (
        f"import sys; from dragoman.services.cli import main; assert main({words}) == 0; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = python(script)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr


def test_composing_and_checking_any_verbs_configuration_imports_nothing_heavy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--cfg job`, and mistakes in every section's types, are answered before torch is loaded."""
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))  # an empty home: with champions, `serve` asks MLflow for them
    script = (
        "import importlib, sys\n"
        "from dragoman.conf import compose\n"
        "from dragoman.services import cli\n"
        "from dragoman.pipelines.config import Config, ImportRoot\n"
        "from dragoman.services.settings import ServeRoot, TranslateRoot\n"
        "from dragoman.services.jobs.settings import UpRoot\n"
        "for verb in cli.VERBS.values():\n"
        "    importlib.import_module(verb.module)\n"
        "for root in (Config, ImportRoot, ServeRoot, TranslateRoot, UpRoot):\n"
        "    compose.typed(root, compose.values([], root))\n"
        "assert cli.main(['train', '--cfg', 'job']) == 0\n"
        "assert cli.main(['train', 'train.max_steps=abc']) == 2\n"
        "assert cli.main(['train', 'paths.root=/nowhere']) == 2\n"
        "assert cli.main(['serve', 'decode.beam=x']) == 2\n"
        "heavy = ('torch', 'ray', 'mlflow', 'numba', 'scipy', 'fastapi')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = python(script)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr


def test_every_verb_is_in_the_help_and_its_module_exists() -> None:
    page = general_help(cli.VERBS)
    assert sorted([*EVERYDAY, *" ".join(GROUPS.values()).split()]) == sorted(cli.VERBS)
    assert len(page.splitlines()) <= 40 and all(f"\n  {name} " in page for name in EVERYDAY)
    for verb in cli.VERBS.values():
        assert importlib.util.find_spec(verb.module) is not None, verb.module


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("help runs", 0, "dragoman runs: list the runs"),
        ("version", 0, "dragoman "),
        ("translate --to fr", 2, "write translate.to=fr (the target language)"),
    ],
)
def test_a_first_word_is_answered_in_a_line(
    words: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words.split()) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err and len(printed.err.splitlines()) <= 1


def test_a_verbs_help_shows_its_keys_and_choices() -> None:
    page = verb_help("train", cli.VERBS["train"], whole=True)
    assert "transformer_tiny" in page
    assert "max_steps:" in page
    assert "method: 3cosadd" in verb_help("analogy", cli.VERBS["analogy"], whole=True)


@pytest.mark.parametrize("name", cli.VERBS)
def test_a_verbs_help_is_one_screen_with_an_example_that_can_be_typed(name: str) -> None:
    page = verb_help(name, cli.VERBS[name]).splitlines()
    assert len(page) <= 24
    assert max(map(len, page)) <= 100
    assert page[2].strip() == f"dragoman {name} {EXAMPLES.get(name, '')}".strip()
    assert f"usage: dragoman {name} {cli.VERBS[name].usage}" in " ".join(" ".join(page[4:]).split())
    words = [word for word in shlex.split(EXAMPLES.get(name, "")) if is_setting(word) and "." in word.partition("=")[0]]
    assert compose.values([word for word in words if "interval(" not in word], cli.VERBS[name].root)


def test_help_all_shows_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", "--help"]) == cli.main(["runs", "--help-all"]) == 0
    assert capsys.readouterr().out.count("shards: false") == 1


def test_json_is_for_the_verbs_that_list_or_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["shard", "--json"]) == 2
    assert "shard: --json: it prints no rows and no record; these do: verify, evaluate" in capsys.readouterr().err
    assert take_json("neighbours", ["dog", "query.k=3", "--json"]) == (False, ["dog", "query.k=3", "format=json"])
    assert take_json("jobs", ["--json", "-f"]) == (True, ["-f"])
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    (tmp_path / "runs" / "demo" / RECORD).write_text("{}")
    assert cli.main(["runs", "--json"]) == 0
    (one,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (one["name"], one["state"], one["bytes"]) == ("demo", "begun", 2)
    assert cli.main(["runs"]) == 0
    assert capsys.readouterr().out.startswith("RUN   STATE")


def test_sigterm_ends_a_verb_that_still_loads_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Torch takes seconds to load; the training's own handler comes after it."""

    class Loading(ModuleType):
        def task(self, _config: object) -> int:
            os.kill(os.getpid(), signal.SIGTERM)
            return 0

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setitem(sys.modules, "dragoman.pipelines.evaluate", Loading("evaluate"))
    assert cli.main(["evaluate", "corpus=everyday"]) == 143
    assert capsys.readouterr().err == "dragoman evaluate: interrupted\n"
    assert signal.getsignal(signal.SIGTERM) == before


LATE = {  # moment -> a work of 5 that gets a signal then
    "while the process ends": """
def work():
    atexit.register(os.kill, os.getpid(), NUMBER)
    return 5
""",
    "when Python has taken its handlers away": """
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=NUMBER):
        kill(pid, number)

def work():
    sys.last = Last()
    return 5
""",
}


def late(work: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    return python(f"""
import atexit, os, signal, sys
from dragoman.conf.endings import run_process
NUMBER = {int(number)}
signal.signal(signal.SIGINT, signal.default_int_handler)
{work}
run_process(work)
""")


@pytest.mark.parametrize(("moment", "number"), list(zip(LATE, (signal.SIGINT, signal.SIGTERM), strict=True)))
def test_a_signal_after_the_work_changes_nothing_about_the_exit_code(moment: str, number: signal.Signals) -> None:
    done = late(LATE[moment], number)
    assert (done.returncode, done.stderr) == (5, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_no_verb_has_caught_is_a_line_and_its_exit_code(number: signal.Signals) -> None:
    done = late("def work():\n    os.kill(os.getpid(), NUMBER)\n    return 5", number)
    assert (done.returncode, done.stderr) == (128 + number, "dragoman: interrupted\n")


def test_a_signal_while_the_command_line_is_loaded_is_a_line_and_its_exit_code() -> None:
    """The signal comes where `dragoman.services.verbs` is looked for."""
    script = """
import importlib.abc, os, signal, sys
class Signal(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "dragoman.services.verbs":
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Signal())
import dragoman.__main__
dragoman.__main__.entry()
"""
    done = python(script)
    assert (done.returncode, done.stderr) == (143, "dragoman: interrupted\n")


def test_a_signal_that_compiled_code_made_an_error_of_is_a_line_and_its_exit_code() -> None:
    work = """
def work():
    try:
        os.kill(os.getpid(), NUMBER)
    except KeyboardInterrupt:
        pass
    raise TypeError("integer argument expected, got float")  # as NumPy does inside of tofile
"""
    done = late(work, signal.SIGINT)
    assert (done.returncode, done.stderr) == (130, "dragoman: interrupted\n")


def test_a_signal_during_an_import_waits_until_the_module_is_whole(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os, time\nos.kill(os.getpid(), 15)\ntime.sleep(0.3)\nwhole = True\n")
    work = f"""
import time
def work():
    sys.path.insert(0, {str(tmp_path)!r})
    try:
        import slow
        time.sleep(30)
    finally:
        print(slow.whole)
"""
    done = late(work, signal.SIGTERM)
    assert (done.returncode, done.stdout, done.stderr) == (143, "True\n", "dragoman: interrupted\n")


def test_a_signal_that_waited_and_was_handled_by_an_inner_block_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os, time\nos.kill(os.getpid(), 15)\ntime.sleep(0.3)\n")
    work = f"""
import threading
def work():
    sys.path.insert(0, {str(tmp_path)!r})
    heard = threading.Event()
    import slow
    signal.signal(signal.SIGTERM, lambda *_: heard.set())
    heard.wait(30)
    return 75
"""
    done = late(work, signal.SIGTERM)
    assert (done.returncode, done.stderr) == (75, "")


def test_what_was_printed_is_there_when_the_process_ends() -> None:
    done = late("def work():\n    sys.stdout.write('said')\n    return 5", signal.SIGINT)
    assert (done.returncode, done.stdout) == (5, "said")


class Module(ModuleType):
    """A verb that raises."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__("verb")
        self.problem = problem

    def main(self, argv: list[str]) -> int:
        raise self.problem


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, cli.VERBS["train"].module, Module(KeyboardInterrupt()))
    assert cli.main(["train", "corpus=everyday"]) == 130
