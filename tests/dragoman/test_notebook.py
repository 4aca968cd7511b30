"""docs/first-model.ipynb runs from its first cell to its last, in a kernel, without a server."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "first-model.ipynb"
# A program of its own, for the client leaves sockets to the garbage collector. The kernel is this environment's Python.
PROGRAM = """
import sys
import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
book = nbformat.read(sys.argv[1], as_version=4)
manager = AsyncKernelManager()
manager.kernel_spec.argv[0] = sys.executable
NotebookClient(book, km=manager, timeout=300).execute()
nbformat.write(book, sys.argv[2])
"""


@pytest.mark.long
def test_the_notebook_runs(tmp_path: Path) -> None:
    assert not any(cell.get("outputs") for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]), "kept without"
    folders = {name: str(tmp_path / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(NOTEBOOK), "done.ipynb"],
        env={**os.environ, **folders, "DRAGOMAN_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "done.ipynb").read_text("utf-8"))["cells"]
    outputs = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    printed = ["".join("".join(out["text"]) for out in each if out["name"] == "stdout") for each in outputs]
    assert "'train':" in printed[1] and "BLEU" in printed[3]
    german = [line[46:] for line in printed[2].splitlines()]
    assert [line.endswith(text) for line, text in zip(printed[4].splitlines(), german, strict=True)] == [True] * 6
    assert "version 1 is champion" in printed[5]
    assert "Did you mean 'max_steps'" in printed[7]
    said = "".join("".join(out["text"]) for each in outputs for out in each if out["name"] == "stderr")
    assert "step 300 | validation loss" in said, "a notebook shows the progress"
