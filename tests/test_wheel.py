"""The wheel: what is in it, and the whole way from an empty folder where nothing but it is installed of ours."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("conf", "dragoman", "model", "pipelines", "services")
SETTINGS = """
corpus: {pairs: 1500}
tokenizer: {vocabulary: 300}
train: {max_steps: 4, checkpoint_every: 4, evaluate_every: 4, optimizer: {warmup_steps: 1}}
evaluate: {sentences: 20}
decode: {length_penalty: 1.0}
cluster: {backend: local}
tracking: {system_metrics: false}
"""
EXPERIMENT = """# @package _global_
name: mine
model: {width: 16, heads: 2, feed_forward: 16, encoder_layers: 1, decoder_layers: 1}
"""
SCRIPT = """
import pathlib, sys
import dragoman
assert pathlib.Path(dragoman.__file__).is_relative_to(sys.prefix), dragoman.__file__
one, two = dragoman.load("mine"), dragoman.load("everyday-en-de@champion")
print(one.translate("The dog sees the man.") == two.translate("The dog sees the man."), two.version)
print(dragoman.shard("experiment=mine", config="mine.yaml").found)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a build leaves its folder in the source."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "bench").mkdir()
    (source / "bench" / "__init__.py").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(source))
    (found,) = made.glob("dragoman-*.whl")
    return found


@pytest.fixture(scope="module")
def binaries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel, which has the libraries of this one and nothing else of it."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120)
    (own,) = place.glob("lib/python*/site-packages")
    (own / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # .pth files in there are not read
    pip("--python", str(place / "bin" / "python"), "install", "--no-deps", "--ignore-installed", str(wheel))
    return place / "bin"


def pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", *words]
    done = subprocess.run(
        command, env={**os.environ, "PIP_NO_INDEX": "1"}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_every_file_of_its_package_and_no_other_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {
        ("dragoman" / path.relative_to(ROOT).relative_to("dragoman" if package == "dragoman" else ".")).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    }
    assert there == files


@pytest.mark.long
def test_the_whole_way_from_an_empty_folder(binaries: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "conf" / "experiment").mkdir(parents=True)
    (folder / "conf" / "experiment" / "mine.yaml").write_text(EXPERIMENT)
    (folder / "mine.yaml").write_text(SETTINGS)
    for name in ("model.py", "services/__init__.py", "pipelines/__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("raise SystemExit('the project of somebody else')\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN_", "PYTHON", "MLFLOW"))}
    environment = {**kept, "DRAGOMAN_CONF": "conf", "HOME": str(tmp_path)}

    def run(*words: str, given: str | None = None) -> str:
        done = subprocess.run(
            words, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stderr}"
        return done.stdout

    dragoman = str(binaries / "dragoman")
    own = ("experiment=mine", "--config", "mine.yaml")
    assert run(dragoman, "--version").startswith("dragoman ")
    run(dragoman, "shard", *own)
    run(dragoman, "train", *own)
    assert "BLEU" in run(dragoman, "evaluate", *own)
    assert "version 1 is champion" in run(dragoman, "promote", *own, "promote.force=true", "promote.reason=it is new")
    assert run(dragoman, "translate", *own, given="The dog sees the man.\n\n").count("\n") == 2
    (folder / "script.py").write_text(SCRIPT)
    assert run(str(binaries / "python"), "script.py").split() == ["True", "1", "True"]
