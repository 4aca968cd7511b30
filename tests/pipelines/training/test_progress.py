"""What the driver says while its workers train."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.pipelines.training import progress


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log gets a line for every look."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    caplog.set_level(logging.INFO)


def write_steps(run: Path, first: int, last: int) -> None:
    """Steps of half a second each and an evaluation."""
    lines: list[dict[str, object]] = [
        {"step": step, "loss": 2.5, "tokens": 1000, "batch": "x", "seconds": step / 2}
        for step in range(first, last + 1)
    ]
    lines.append({"step": last, "valid_loss": 1.5, "valid_perplexity": 4.48, "valid_bleu": 30.25, "seconds": last / 2})
    with (run / "steps.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def test_a_log_gets_steps_and_evaluations(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with progress.show_progress(tmp_path, 1000):
        write_steps(tmp_path, 1, 20)
    text = caplog.text
    assert "step 20/1,000 | loss 2.500 | 2,000 target tokens/s | 8 min 10 s left" in text
    assert "step 20 | validation loss 1.500 | perplexity 4.48 | BLEU 30.2" in text


def test_the_plan_is_said_once_with_its_time_when_the_rate_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    follower = progress._Follower(tmp_path / "steps.jsonl", 1200, "target tokens", "10,000 pairs: 1,200 steps of 2,048")
    for first, last in ((1, 5), (6, 20), (21, 30)):
        write_steps(tmp_path, first, last)
        follower._read()
        told = [record.message for record in caplog.records if "pairs" in record.message]
        assert told == ([] if last == 5 else ["10,000 pairs: 1,200 steps of 2,048, about 9 min 50 s"])


def test_what_an_earlier_start_wrote_is_not_said_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_steps(tmp_path, 1, 5)
    with progress.show_progress(tmp_path, 1000):
        pass
    assert "step 5" not in caplog.text


def test_a_journal_that_was_cut_back_is_read_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A worker died: the journal goes on from its checkpoint, in a file that may be longer already than the old one."""
    (tmp_path / "new").mkdir()
    with progress.show_progress(tmp_path, 1000):
        write_steps(tmp_path, 1, 20)
        wait_for(lambda: "step 20 |" in caplog.text)
        write_steps(tmp_path / "new", 1, 20)
        write_steps(tmp_path / "new", 21, 22)
        (tmp_path / "new" / "steps.jsonl").replace(tmp_path / "steps.jsonl")
    assert caplog.text.count("step 20 | validation loss") == 1
    assert caplog.text.count("step 22 | validation loss") == 1
    assert "step 22/1,000 | loss 2.500 | 2,000 target tokens/s" in caplog.text


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited a minute")


def test_word_vectors_say_their_epochs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines: list[dict[str, object]] = [
        {"step": step, "loss": 2.5, "tokens": 3000, "seconds": step / 2} for step in (20, 40, 60)
    ]
    lines.append({"step": 60, "epoch": 1, "epoch_loss": 2.4567, "seconds": 30.0})
    with progress.show_progress(tmp_path, 120, "words"):
        (tmp_path / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "epoch 1 | loss 2.4567 | 30 s trained" in caplog.text
    assert "step 60/120 | loss 2.500 | 300 words/s | 30 s left" in caplog.text


def test_a_line_has_the_mean_since_the_last_and_a_settled_rate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first steps take minutes here: while only they are known no time is promised, and afterwards they are out."""
    follower = progress._Follower(tmp_path / "steps.jsonl", 1000, "target tokens", "")
    seconds = [100.0, 200.0, 300.0, *(300.0 + step / 2 for step in range(1, 18))]

    def write(first: int, last: int) -> None:
        rows = [
            {"step": step, "loss": float(step), "tokens": 1000, "batch": "x", "seconds": seconds[step - 1]}
            for step in range(first, last + 1)
        ]
        with (tmp_path / "steps.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        follower._read()

    write(1, 4)
    write(5, 20)
    assert caplog.messages == [
        "step 4/1,000 | loss 2.500",
        "step 20/1,000 | loss 12.500 | 2,000 target tokens/s | 8 min 10 s left",
    ]


def test_the_time_left_is_that_to_the_last_step_which_the_journal_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "steps.jsonl"
    follower = progress._Follower(path, 1800, "target tokens", "10,000 pairs: {steps:,} steps", timed=True)
    write_steps(tmp_path, 1, 10)
    follower._read()
    assert "step 10 | loss 2.500" in caplog.text and "left" not in caplog.text and "pairs" not in caplog.text
    with path.open("a") as file:
        file.write('{"step":10,"last_step":260,"note":"3 min: 260 of 1,800 steps","seconds":5.0}\n')
    write_steps(tmp_path, 11, 20)
    follower._read()
    assert "3 min: 260 of 1,800 steps" in caplog.text and "10,000 pairs: 260 steps, about 2 min" in caplog.text
    assert "step 20/260 | " in caplog.text and "2 min 00 s left" in caplog.text
