"""The examples of docs/clients.md are run against a server, as they are printed."""

import ast
import gc
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.python_clients import quiet

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
EXAMPLES = [body for language, body in BLOCKS if language == "python"]
CURL = [
    line
    for language, body in BLOCKS
    for line in body.replace("\\\n", " ").splitlines()
    if language == "sh" and line.startswith("curl ")
]
ADDRESS = "http://127.0.0.1:5050"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with the file that the examples translate."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("# A dog\n\nThe dog sees the **man**.\n")


@pytest.mark.parametrize("line", CURL)
def test_every_curl_command_is_answered(url: str, line: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = line.replace("curl -s", "curl -s --fail-with-body").replace(ADDRESS, url)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout or done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize("body", EXAMPLES, ids=[body.split()[1].split(".")[0] for body in EXAMPLES])
def test_every_python_example_runs(url: str, body: str) -> None:
    names = [node.names[0].name for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Import)]
    with quiet():
        missing = [name for name in names if not is_installed(name)]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: pip install --group clients")
    port = url.rpartition(":")[2]
    with quiet():
        exec(compile(body.replace("5050", port), "docs/clients.md", "exec"), {})
        gc.collect()


def is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package above it
        return False
