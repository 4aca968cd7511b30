"""The planner's process and what it has planned before."""

import json
from pathlib import Path

import pytest

from services.jobs.planning.planner import Planner
from services.jobs.planning.stamps import stamp_of


def test_the_same_words_are_planned_once_as_long_as_the_files_behind_them_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, asked = tmp_path / "manifest.json", list[str]()

    def ask(_: Planner, question: str) -> str:
        words = json.loads(question)["words"]
        asked.append(words[0])
        reads = {} if words == ["doctor"] else {str(manifest): stamp_of(str(manifest))}
        return json.dumps({"plan": {"words": words, "number": len(asked)}, "reads": reads})

    monkeypatch.setattr(Planner, "_ask", ask)
    planner = Planner([tmp_path])
    first = planner.plan("train", ["a"])
    first["words"] = "changed by whoever was given it"
    assert planner.plan("train", ["a"]) == {"words": ["a"], "number": 1}
    assert planner.plan("train", ["a"], gpus=1)["number"] == 2
    manifest.write_text("{}")
    assert planner.plan("train", ["a"])["number"] == 3
    assert planner.plan("train", ["a"])["number"] == 3
    assert [planner.plan("doctor", ["doctor"])["number"] for _ in range(2)] == [4, 5]  # what it reads nobody knows
