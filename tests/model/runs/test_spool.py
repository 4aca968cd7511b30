import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.model.runs.spool import Mark, Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path / "run")
    spool.open()
    return spool


def test_records_come_back_in_order_with_their_values(spool: Spool) -> None:
    spool.append("metrics", when=5, step=1, values={"loss": 0.25, "größe": math.nan, "top": math.inf, "low": -math.inf})
    spool.append("tags", values={"note": "zwei\nZeilen"})
    first, second = spool.records()
    assert (first.kind, first.time, first.fields["step"]) == ("metrics", 5, 1)
    values = first.fields["values"]
    assert values["loss"] == 0.25
    assert math.isnan(values["größe"])
    assert (values["top"], values["low"]) == (math.inf, -math.inf)
    assert second.fields["values"] == {"note": "zwei\nZeilen"}
    assert [one.kind for one in spool.records(first.end)] == ["tags"]


def test_a_torn_last_line_is_skipped_and_later_records_are_kept(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    spool.append("metrics", step=1, values={"loss": 1.0})
    spool.close()
    with spool.path.open("ab") as stream:
        stream.write(b'{"kind":"metrics","time":1,"st')
    assert len(list(spool.records())) == 1, "an unfinished line is nobody's to read yet"
    again = Spool(spool.run_dir)
    again.open()
    again.append("metrics", step=2, values={"loss": 0.5})
    assert [one.fields["step"] for one in again.records()] == [1, 2]
    assert "unreadable line" in caplog.text


def test_a_writer_killed_at_once_after_append_loses_nothing(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from dragoman.model.runs.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1])); spool.open()\n"
        "for i in range(100): spool.append('metrics', step=i, values={'loss': 1.0})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=False)
    assert done.returncode == -9
    spool = Spool(tmp_path)
    assert [one.fields["step"] for one in spool.records()] == list(range(100))
    assert not spool.writer_alive()


def test_the_mark_survives_and_starts_at_the_beginning(spool: Spool) -> None:
    assert spool.mark() == Mark()
    spool.append("tags", values={"a": "b"})
    spool.set_mark(Mark(7, "http://there", "abc"))
    assert Spool(spool.run_dir).mark() == Mark(7, "http://there", "abc")


def test_one_sender_at_a_time(spool: Spool) -> None:
    with spool.sending() as mine, Spool(spool.run_dir).sending() as second:
        assert mine
        assert not second
    with spool.sending() as mine:
        assert mine


def test_a_living_writer_is_seen(spool: Spool) -> None:
    assert Spool(spool.run_dir).writer_alive()
    spool.close()
    assert not Spool(spool.run_dir).writer_alive()


def test_the_identity_is_made_once(spool: Spool) -> None:
    assert spool.identity() == Spool(spool.run_dir).identity()


@pytest.mark.parametrize("starts", [False, True], ids=["the same writer", "the next start"])
def test_a_record_that_a_full_disk_tears_is_an_error_and_the_next_is_kept(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    real = os.write
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:25]))
        spool.append("metrics", step=1, values={"loss": 1.0})
    again = Spool(spool.run_dir) if starts else spool
    if starts:
        again.open()
    again.append("metrics", step=2, values={"loss": 1.0})
    assert [one.fields["step"] for one in again.records()] == [2]


def test_last_steps_are_per_key(spool: Spool) -> None:
    for step, key in [(10, "loss"), (20, "loss"), (10, "bleu")]:
        spool.append("metrics", step=step, values={key: 1.0})
    assert spool.last_steps() == {"loss": 20, "bleu": 10}
