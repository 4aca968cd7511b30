"""The error near the end of a job's log."""

from pathlib import Path

import pytest

from dragoman.services.jobs.service.logs import END, error_of

TRACED = """step 1
(RayTrainWorker pid=7, ip=10.0.0.1) Traceback (most recent call last):
(RayTrainWorker pid=7, ip=10.0.0.1)   File "x.py", line 1, in <module>
(RayTrainWorker pid=7, ip=10.0.0.1) ValueError: the first
Traceback (most recent call last):
  File "y.py", line 2
RuntimeError: the second
dragoman train: a worker has died
"""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("step 1\nstep 2\n", ""),
        ("", ""),
        (TRACED, "ValueError: the first"),
        ("one\n\x1b[31m2030 ERROR all is lost\x1b[0m\n", "2030 ERROR all is lost"),
        ("one\ndragoman train: lr=x: no number\n", "dragoman train: lr=x: no number"),
        ("dragoman train: is not the end\nfine\n", ""),
    ],
)
def test_the_error_is_the_message_of_the_first_traceback_or_line(tmp_path: Path, text: str, error: str) -> None:
    log = tmp_path / "a1.log"
    log.write_text(text)
    assert error_of(log) == error
    log.write_text("KeyError: 'long before'\n" + "x" * END + "\n" + text)
    assert error_of(log) == error
    assert error_of(tmp_path / "none") == ""
