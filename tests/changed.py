"""A pytest plugin: the tests of what changed since main, nearest first, within a budget of seconds.

    python -m pytest -p tests.changed        (make quick)

Of a changed file these come first: the tests in its mirror, `tests/.../test_NAME.py`, then the tests that import it,
then those of its folder. Tests that start processes are left to `make test`. Where nothing changed, the tests of
`model/` run. When the budget is spent the rest is skipped, and the last line says how many.
"""

import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUDGET = 40.0  # seconds from pytest's start; imports, the last test and the report come on top
PACKAGES = ("model", "pipelines", "services", "conf", "dragoman", "bench")  # folders at the top
ALWAYS = ("tests/test_layers.py",)
PROCESSES = re.compile(r"\bsubprocess\b|\bmultiprocessing\b|tests\.warm|tests\.services\.stack|\bplaywright\b")
begun = time.monotonic()
skipped = 0


def changed_files(root: Path = ROOT) -> list[str]:
    """The files that differ from where this branch left main, with those that git does not know yet."""

    def git(*words: str) -> list[str]:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True).stdout.splitlines()

    base = git("merge-base", "HEAD", "main") or git("merge-base", "HEAD", "origin/main") or ["HEAD"]
    return sorted({*git("diff", "--name-only", base[0]), *git("ls-files", "--others", "--exclude-standard")})


def tests_of(changed: Iterable[str], root: Path = ROOT) -> list[str]:
    """The files of tests for these changed files, nearest first."""
    paths = [Path(name) for name in changed]
    texts = {test: test.read_text("utf-8") for test in sorted((root / "tests").rglob("test_*.py"))}
    if not any(path.parts[0] in (*PACKAGES, "tests") for path in paths):
        paths = [Path("model/__init__.py")]
    mirrors, importers, neighbours = [], [], []
    for path in paths:
        module = re.compile(rf"\b{re.escape('.'.join(path.with_suffix('').parts))}\b")
        folder = "tests" / path.parent
        for test, text in texts.items():
            name = test.relative_to(root)
            if name == path or (name.stem == f"test_{path.stem}" and name.parent == folder):
                mirrors.append(test)
            elif path.parts[0] in PACKAGES and path.suffix == ".py" and module.search(text):
                importers.append(test)
            elif path.parts[0] in PACKAGES and (name.parent == folder or folder in name.parents):
                neighbours.append(test)
    ordered = dict.fromkeys([*mirrors, *importers, *neighbours])
    near = set(mirrors)
    found = [str(test.relative_to(root)) for test in ordered if test in near or not PROCESSES.search(texts[test])]
    return [*found, *(name for name in ALWAYS if name not in found)]


def pytest_configure(config: pytest.Config) -> None:
    if not config.args or config.args == config.getini("testpaths") or config.args == [str(ROOT)]:
        config.args[:] = [str(ROOT / name) for name in tests_of(changed_files())]


def pytest_runtest_setup(item: pytest.Item) -> None:
    global skipped
    if time.monotonic() - begun > BUDGET:
        skipped += 1
        pytest.skip(f"the {BUDGET:g} s of make quick are over")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if skipped:
        terminalreporter.write_line(f"{skipped} tests are left to make test: the {BUDGET:g} s of make quick are over")
