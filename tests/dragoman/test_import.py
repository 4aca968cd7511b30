"""`import dragoman`: quick, without effects, and beside anybody's `model/`."""

import inspect
import subprocess
import sys
from pathlib import Path

import dragoman

LIBRARIES = ("numpy", "torch", "ray", "mlflow", "hydra", "omegaconf", "ctranslate2", "httpx")
HEAVY = (*LIBRARIES, "dragoman.pipelines", "dragoman.services")


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
    shown = {name for name, value in vars(dragoman).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert shown == set(dragoman.__all__)
    for name in dragoman.__all__:
        assert getattr(dragoman, name).__doc__, name
    assert (Path(dragoman.__file__).parent / "py.typed").is_file()


NAMES = ("conf", "model", "pipelines", "services", "bench", "deploy")


def test_a_project_with_packages_of_our_folders_names_uses_ours_beside_its_own(tmp_path: Path) -> None:
    """A folder `model/` or a file `model.py` is in half of all projects."""
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'theirs'\n")
    (tmp_path / "model.py").write_text("OWNER = 'theirs'\n")
    code = (
        f"import {', '.join(NAMES)}\n"
        "import dragoman.model.errors, dragoman.conf.groups, dragoman.pipelines.config, dragoman.services.cli\n"
        f"assert all(module.OWNER == 'theirs' for module in ({', '.join(NAMES)}))\n"
        "assert dragoman.services.cli.main(['runs']) == 0\n"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    command = subprocess.run(
        [sys.executable, "-m", "dragoman", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (command.returncode, command.stdout[:9]) == (0, "dragoman "), command.stderr
