"""The stand-in for another processor: other last bits in another place, the same for the same."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.another_processor import ROUNDING, rounded

REPOSITORY = Path(__file__).resolve().parents[1]


def test_a_row_rounds_by_its_place_and_company_and_never_far() -> None:
    rows = torch.full((4, 3), 0.7)
    found = rounded(rows)
    assert not torch.equal(found[0], found[2])
    assert not torch.equal(found[0], rounded(rows[:1])[0])
    torch.testing.assert_close(found, rows, rtol=2 * ROUNDING, atol=0.0)
    assert torch.equal(found, rounded(rows.clone()))
    exact = torch.rand(4, 3, dtype=torch.float64)
    assert torch.equal(rounded(exact), exact)


@pytest.mark.long
def test_a_test_that_takes_rows_of_a_batch_for_equal_fails_there(tmp_path: Path) -> None:
    (tmp_path / "test_rows.py").write_text(
        "import torch\n"
        "def test_rows():\n"
        "    found = torch.ones(4, 8) @ torch.full((8, 3), 0.7)\n"
        "    assert torch.equal(found[0], found[2])\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", str(tmp_path), "-p", "no:cacheprovider"]
    for plugin, code in (([], 0), (["-p", "tests.another_processor"], 1)):
        done = subprocess.run([*words, *plugin], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout
