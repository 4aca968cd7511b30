"""docs/lectures.md computes: its snippets print the numbers that the page shows."""

import contextlib
import io
import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[1] / "docs" / "lectures.md"
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_every_number_of_the_page_is_computed() -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == PAGE.read_text(encoding="utf-8").count("```python") > 10
    names: dict[str, object] = {}
    kept = torch.get_rng_state()
    try:
        for code, shown in blocks:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, str(PAGE), "exec"), names)
            assert out.getvalue() == shown, code
    finally:
        torch.set_grad_enabled(True)
        torch.set_printoptions(profile="default")
        torch.set_rng_state(kept)
