"""A real service is backed up while a training runs, and restored elsewhere: lists, models, translations, the queue."""

import json
import time
from pathlib import Path

import pytest

from tests.services.backup.service import SMALL, dragoman, finish, running

pytestmark = pytest.mark.long
TEXT = ("the dog runs .", "translate.model=models:/small@champion")


def records(home: Path, *words: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in dragoman(home, *words, "--json").splitlines()]


def test_a_service_that_trains_comes_back_in_an_empty_home(tmp_path: Path) -> None:
    home, other, archive = tmp_path / "home", tmp_path / "other", str(tmp_path / "archive")
    with running(home):
        for words in (["shard", *SMALL], ["train", *SMALL, "name=first", "train.max_steps=40"]):
            finish(home, dragoman(home, "submit", *words).split()[0])
        dragoman(home, "promote", *SMALL, "promote.force=true", "promote.reason=test")
        going = dragoman(home, "submit", "train", *SMALL, "name=second", "train.max_steps=100000").split()[0]
        while not list((home / "runs" / "second" / "checkpoints").glob("step-*")):
            time.sleep(0.5)
        dragoman(home, "backup", archive)
        jobs, models = records(home, "jobs"), records(home, "models")
        said = dragoman(home, "translate", *TEXT)
        dragoman(home, "stop", going)
    dragoman(other, "restore", archive)
    with running(other):
        there = {one["id"]: one for one in records(other, "jobs")}
        assert there.keys() == {one["id"] for one in jobs} and there[going]["state"] != "succeeded"
        for one in jobs:
            if one["id"] != going:
                assert there[one["id"]] == one
        assert records(other, "models") == models
        assert dragoman(other, "translate", *TEXT) == said
        before = dragoman(other, "job", going)
        deadline = time.monotonic() + 300  # the training goes on from its checkpoint
        while "attempt 2 runs" not in (before := dragoman(other, "job", going)):
            assert time.monotonic() < deadline, before
            time.sleep(1)
        dragoman(other, "stop", going)
