"""A journal that grows, is replaced or is damaged is read as far as it goes, and what is left out is named."""

import logging
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.attempts import next_attempt, note_start
from dragoman.model.runs.journal import Journal, lines
from dragoman.model.runs.lines import JournalReader
from dragoman.model.runs.record import read_record
from dragoman.model.untrusted import read_json


def write(run: Path, steps: int) -> None:
    journal = Journal(run, 0)
    for step in range(1, steps + 1):
        journal.write({"step": step, "loss": 1.0, "tokens": 4})
    journal.close()


def damage(path: Path, number: int) -> None:
    texts = path.read_text().split("\n")
    texts[number - 1] = texts[number - 1][:9]
    path.write_text("\n".join(texts))


def test_a_reader_goes_on_where_it_ended_and_knows_another_file(tmp_path: Path) -> None:
    write(tmp_path, 3)
    reader = JournalReader(tmp_path / paths.STEPS)
    assert [line["step"] for line in reader.lines()] == [1, 2, 3]
    assert not reader.is_replaced()
    journal = Journal(tmp_path, 2)  # goes on after step 2: the file is written anew
    journal.write({"step": 3, "loss": 2.0, "tokens": 4})
    assert reader.is_replaced() and list(reader.lines()) == []
    again = JournalReader(tmp_path / paths.STEPS)
    assert [line["step"] for line in again.lines()] == [1, 2, 3]
    journal.write({"step": 4, "loss": 2.0, "tokens": 4})
    assert [(again.number, line["step"]) for line in again.lines()] == [(4, 4)]
    journal.close()


def test_a_run_goes_on_over_a_damaged_line_and_says_which(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, 5)
    damage(tmp_path / paths.STEPS, 2)
    with caplog.at_level(logging.WARNING):
        journal = Journal(tmp_path, 4)
    journal.write({"step": 5, "loss": 2.0, "tokens": 4})
    journal.close()
    assert f"{tmp_path}: steps.jsonl line 2 is damaged; it is left out" in caplog.text
    assert [line["step"] for line in lines(tmp_path / paths.STEPS)] == [1, 3, 4, 5]


def test_lines_of_the_small_files_need_no_step(tmp_path: Path) -> None:
    note_start(tmp_path, next_attempt(tmp_path), 0, 2)
    note_start(tmp_path, next_attempt(tmp_path), 7, 1)
    found = list(lines(tmp_path / paths.STARTS))
    assert [(line["attempt"], line["step"], line["workers"]) for line in found] == [(1, 0, 2), (2, 7, 1)]
    (tmp_path / paths.STARTS).write_text('{"attempt": 1}\n["no object"]\n')
    assert list(lines(tmp_path / paths.STARTS)) == [{"attempt": 1}]


def test_a_damaged_file_is_named_with_its_line(tmp_path: Path) -> None:
    assert read_json(tmp_path / "none.json") is None
    (tmp_path / "a.json").write_text('{"a": 1,\n"b"}')
    with pytest.raises(UserError, match=r"a\.json: damaged \(.*line 2 .*\)\. Delete it$"):
        read_json(tmp_path / "a.json", "Delete it")
    (tmp_path / paths.RECORD).write_text("[1]")
    with pytest.raises(UserError, match=r"run\.json: damaged \(no object\)\. Put back"):
        read_record(tmp_path)


def test_checkpoints_are_known_by_their_names_alone(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path) is None and checkpoints.newest_step(tmp_path) == 0
    for name in ("step-00000020", "step-00000003", ".step-00000040.x", "step-²", "step-", f"step-{'9' * 50}"):
        (tmp_path / paths.CHECKPOINTS / name).mkdir(parents=True)
    (tmp_path / paths.WEIGHTS).mkdir()
    (tmp_path / paths.WEIGHTS / "step-00000003.safetensors").write_text("")
    (tmp_path / paths.WEIGHTS / "step-00000003.sha256").write_text("")
    assert list(checkpoints.every(tmp_path)) == [3, 20]
    assert checkpoints.newest(tmp_path) == checkpoints.folder(tmp_path, 20)
    assert checkpoints.weights_by_step(tmp_path) == {3: checkpoints.weights(tmp_path, 3)}
    assert checkpoints.newest_step(tmp_path) == 20
