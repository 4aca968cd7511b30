"""`import dragoman`: quick, without effects, and clear about what hides its packages."""

import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman import _names

HEAVY = ("numpy", "torch", "ray", "mlflow", "hydra", "omegaconf", "ctranslate2", "httpx", "pipelines", "services")


def python(code: str, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *options, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_importing_loads_nothing_heavy_and_changes_nothing(tmp_path: Path) -> None:
    code = (
        "import logging, os, signal, sys, threading, warnings\n"
        "def state():\n"
        "    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}\n"
        "    log = logging.getLogger()\n"
        "    return (signals, list(log.handlers), log.level, dict(os.environ), threading.active_count(),\n"
        "            sys.excepthook, list(warnings.filters), list(sys.path), os.listdir('.'))\n"
        "before = state()\n"
        "import dragoman\n"
        "assert state() == before\n"
        f"heavy = [name for name in {HEAVY} if name in sys.modules]\n"
        "assert not heavy, heavy\n"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_public_names_are_those_that_are_documented() -> None:
    assert sorted(dragoman.__all__) == dragoman.__all__
    shown = {name for name in vars(dragoman) if not name.startswith("_") and name != "check_names"}
    assert shown == set(dragoman.__all__)
    for name in dragoman.__all__:
        assert getattr(dragoman, name).__doc__, name
    assert (Path(dragoman.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("name", _names.OURS)
def test_another_package_of_one_of_our_names_is_named(name: str, tmp_path: Path) -> None:
    other = tmp_path / f"{name}.py"
    other.write_text("")
    done = python("import dragoman", tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: dragoman: {other} hides Dragoman's own package")


def test_a_package_that_is_loaded_already_is_named_too(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    done = python("import sys; sys.path.insert(0, 'elsewhere'); import model, dragoman", tmp_path)
    assert f"ImportError: dragoman: {folder} hides" in done.stderr


def test_the_command_says_it_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text("")
    code = "import sys; sys.argv = ['/usr/bin/dragoman', 'train']; import dragoman"
    done = python(code, tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("dragoman: ") and done.stderr.count("\n") == 1
