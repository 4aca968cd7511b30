"""A log's lines by number, its first error, a text in it, its colours and times."""

import random
import re
from pathlib import Path

import pytest

from dragoman.services.jobs import log_times
from dragoman.services.jobs.log_times import Stamps, read_times
from dragoman.services.jobs.service import log_index, log_search
from dragoman.services.jobs.service.log_colours import coloured
from dragoman.services.jobs.service.log_index import FirstError, LogIndex
from dragoman.services.jobs.service.log_search import search


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a short log has many."""
    for module in (log_index, log_search):
        monkeypatch.setattr(module, "BLOCK", 100)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", range(8))
def test_lines_are_numbered_and_found_as_if_the_whole_log_were_read(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    log, content = tmp_path / "a1.log", b""
    log.write_bytes(content)
    index = LogIndex(log)
    assert index.lines() == 0
    for _ in range(6):  # it grows between the looks
        content += b"".join(b"x" * draw.randrange(0, 250) + draw.choice([b"", b"Word"]) + b"\n" for _ in range(9))
        content += draw.choice([b"", b"no end"])
        log.write_bytes(content)
        lines = content.removesuffix(b"\n").split(b"\n")
        assert index.lines() == len(lines)
        offset = 0
        for number, line in enumerate(lines, 1):
            assert (index.offset_of(number), index.line_of(offset)) == (offset, number)
            offset += len(line) + 1
        assert index.offset_of(len(lines) + 5) == len(content)
        wanted = [(number, line.decode()) for number, line in enumerate(lines, 1) if b"word" in line.lower()]
        found = search(index, "wORD")
        assert found.lines == wanted and found.offsets == [index.offset_of(number) for number, _ in wanted]
        middle = len(lines) // 2
        assert search(index, "word", middle).lines == [one for one in wanted if one[0] >= middle]


@pytest.mark.usefixtures("blocks")
def test_a_search_stops_after_some_lines_and_some_bytes_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a1.log"
    log.write_text("".join(f"\x1b[3{number % 8}mli\x1b[0mne {number}\n" for number in range(1, 301)))
    monkeypatch.setattr(log_search, "MOST", 50)
    monkeypatch.setattr(log_search, "SCAN", 1000)
    found, first, looks = [], 1, 0
    while first is not None:
        part = search(LogIndex(log), "LINE", first)
        assert len(part.lines) <= 50
        assert part.offsets == [LogIndex(log).offset_of(number) for number, _ in part.lines]
        found, first, looks = [*found, *part.lines], part.following, looks + 1
    assert found == [(number, f"line {number}") for number in range(1, 301)]  # each once
    assert looks > 6


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
    ("text", "found"),
    [
        ("step 1\nstep 2\n", None),
        ("", None),
        (TRACED, FirstError(2, "ValueError: the first")),
        ("one\n\x1b[31m2030 ERROR all is lost\x1b[0m\n", FirstError(2, "2030 ERROR all is lost")),
        ("one\ndragoman train: lr=x: no number\n", FirstError(2, "dragoman train: lr=x: no number")),
        ("dragoman train: is not the end\nfine\n", None),
    ],
)
def test_the_first_error_is_the_message_of_the_first_traceback_or_line(
    tmp_path: Path, text: str, found: FirstError | None
) -> None:
    log = tmp_path / "a1.log"
    log.write_text(text)
    assert LogIndex(log).first_error() == found
    log.write_text("x" * (1 << 20) + "\n" + text)  # in another block
    later = LogIndex(log).first_error()
    assert later == (found and FirstError(found.line + 1, found.text))
    assert LogIndex(tmp_path / "none").first_error() is None


def test_an_error_that_comes_later_is_found_by_the_next_look(tmp_path: Path) -> None:
    log = tmp_path / "a1.log"
    log.write_text("step 1\nTraceback (most rec")
    index = LogIndex(log)
    assert index.first_error() is None
    with log.open("a") as file:
        file.write("ent call last):\n  File\nKeyError: 'x'\n")
    assert index.first_error() == FirstError(2, "KeyError: 'x'")


def test_colours_become_classes_and_all_else_is_escaped() -> None:
    assert coloured("\x1b[1;31mred <b>\x1b[0m & plain") == '<span class="bold ansi1">red &lt;b&gt;</span> &amp; plain'
    assert coloured("\x1b[38;5;196mfar\x1b[39m\x1b[2Kx\x1b]") == "farx"
    assert coloured("10 %\r\x1b[32m100 %\r") == '<span class="ansi2">100 %</span>'
    assert coloured("a<i>A", "<I>") == "a<mark>&lt;i&gt;</mark>A"
    hostile = coloured('\x1b[31m"><script>alert(1)</script>', "script")
    assert re.findall(r"<(\w+)", hostile) == ["span", "mark", "mark"]


def test_lines_have_the_times_at_which_they_were_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(log_times.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(log_times.time, "time", lambda: 1_900_000_000 + clock[0])
    path = tmp_path / "a1.times"
    with Stamps(path) as stamps:
        for at, size in ((0, 10), (0.2, 20), (1.1, 30), (5, 30), (9, 90)):
            clock[0] = 1000 + at
            stamps.note(size)
        stamps.note(95)
        stamps.note(100, last=True)
    times = read_times(path, [0, 9, 10, 29, 30, 94, 95, 99, 100])
    began = 1_900_001_000
    assert times == [began, began, began + 1, began + 1, *[began + 9] * 4, None]
    assert read_times(path, [29, 95]) == times[3:7:3]
    assert read_times(path, []) == []
    assert read_times(tmp_path / "none", [1, 2]) == [None, None]
    path.write_text("no rows at all, and so no times of anything")
    assert read_times(path, [0]) == [None]
