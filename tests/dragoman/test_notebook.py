"""docs/first-model.ipynb runs from its first cell to its last, in a kernel, without a server."""

import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "first-model.ipynb"


@pytest.mark.filterwarnings("ignore")  # of the libraries that run it
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    book = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "it is kept without outputs"
    manager = AsyncKernelManager()
    manager.kernel_spec.argv[0] = sys.executable  # this environment's, whatever kernels are installed
    client = NotebookClient(book, km=manager, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    printed = ["".join(out.get("text", "") for out in cell.outputs) for cell in book.cells if cell.cell_type == "code"]
    errors = [
        out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs if out.output_type != "stream"
    ]
    assert not errors
    assert "'train':" in printed[1] and "BLEU" in printed[2]
    assert "version 1 is champion" in printed[4]
    assert "Did you mean 'max_steps'" in printed[6]
    loud = [
        out.text
        for cell in book.cells
        if cell.cell_type == "code"
        for out in cell.outputs
        if out.get("name") == "stderr"
    ]
    assert not loud, "progress is quiet"
